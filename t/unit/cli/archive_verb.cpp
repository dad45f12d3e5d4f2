// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "cli/archive_verb.hpp"
#include "cli/interrupts.hpp"

using nacre::cli::human_size;
using nacre::cli::Interrupts;
using nacre::cli::ProgressLine;

TEST_CASE("a copy that is soon over shows no progress") {
  ProgressLine line(100);
  CHECK(line.update({1, 2}, 100.99) == "");
  CHECK(line.clear() == "");
}

TEST_CASE("a copy that takes a while shows how far it is, now and then, and cleans up") {
  ProgressLine line(100);
  CHECK(line.update({3, 700}, 101) == "\r\x1b[K3 entries, 700 bytes");
  CHECK(line.update({4, 800}, 101.1) == "");
  CHECK(line.update({5, 2048}, 101.25) == "\r\x1b[K5 entries, 2.0 KiB");
  CHECK(line.clear() == "\r\x1b[K");
  CHECK(line.clear() == "");
}

TEST_CASE("sizes are told in the unit that fits") {
  CHECK(human_size(0) == "0 bytes");
  CHECK(human_size(1023) == "1023 bytes");
  CHECK(human_size(1536) == "1.5 KiB");
  CHECK(human_size(std::uint64_t{3} << 40) == "3.0 TiB");
  CHECK(human_size(UINT64_MAX) == "16.0 EiB");
}

namespace {

volatile std::sig_atomic_t received = 0;

// Counts the signals that this process gets, and restores what was set before.
class Counted {
 public:
  explicit Counted(
      int signum, void (*handler)(int) = [](int) { received = received + 1; })
      : signum_(signum), before_(std::signal(signum, handler)) {
    received = 0;
  }
  ~Counted() { std::signal(signum_, before_); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int signum_;
  void (*before_)(int);
};

}  // namespace

TEST_CASE("a signal that ends programs is held back, told, and delivered at the end") {
  for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    Counted counted(signum);
    {
      Interrupts interrupts;
      CHECK_FALSE(interrupts.pending());
      std::raise(signum);
      CHECK(interrupts.pending() == signum);
      CHECK(received == 0);
    }
    CHECK(received == 1);
  }
}

TEST_CASE("a signal that is ignored interrupts nothing") {
  Counted ignored(SIGHUP, SIG_IGN);
  Interrupts interrupts;
  std::raise(SIGHUP);
  CHECK_FALSE(interrupts.pending());
}

TEST_CASE("other signals come at once") {
  Counted counted(SIGUSR1);
  Interrupts interrupts;
  std::raise(SIGUSR1);
  CHECK(received == 1);
  CHECK_FALSE(interrupts.pending());
}
