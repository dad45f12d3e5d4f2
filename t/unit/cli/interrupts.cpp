// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupts.hpp"

#include "catch.hpp"

using nacre::cli::Interrupts;

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
