// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "catch.hpp"

#include "base/log.hpp"
#include "base/print.hpp"
#include "base/unique_fd.hpp"

using namespace nacre;

namespace {

// While it lives, the stream `fd` goes to `path`.
class Redirected {
 public:
  Redirected(int fd, const char* path, int flags) : fd_(fd), before_(::fcntl(fd, F_DUPFD_CLOEXEC, 3)) {
    UniqueFd opened(::open(path, flags | O_CLOEXEC));
    ::dup2(opened.get(), fd);
  }
  ~Redirected() { ::dup2(before_.get(), fd_); }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int fd_;
  UniqueFd before_;
};

}  // namespace

TEST_CASE("what cannot be printed is an error, once") {
  REQUIRE(flush_out());
  Error error;
  bool more = true;
  {
    Redirected full(STDOUT_FILENO, "/dev/full", O_WRONLY);
    print_out("{} lines\n", 3);
    auto flushed = flush_out();
    if (!flushed) error = flushed.error();
    more = !flush_out();
  }
  CHECK(error.message == "standard output: No space left on device");
  CHECK(!more);
  CHECK(flush_out());
}

TEST_CASE("more than the buffer holds is an error too if it cannot be printed") {
  bool failed = false;
  {
    Redirected closed(STDOUT_FILENO, "/dev/null", O_RDONLY);
    for (int i = 0; i < 100; ++i) print_out(std::string(4096, 'x'));
    failed = !flush_out();
  }
  CHECK(failed);
}

TEST_CASE("nothing is thrown where standard error takes nothing") {
  Redirected full(STDERR_FILENO, "/dev/full", O_WRONLY);
  CHECK_NOTHROW(print_err("{} and {}\n", 1, 2));
}

TEST_CASE("a message as a line has its shell, its level unless that is notice, and its component") {
  CHECK(log_line({Level::notice, "", "", 0, "text"}, 3) == "nacre-shell[3]: text");
  CHECK(log_line({Level::warn, "oom", "f.cpp", 7, "text"}, 0) == "nacre-shell[0]: warn: oom: text");
  CHECK(log_line({Level::error, "", "", 0, "text", 5}, 3) == "nacre-shell[5]: error: text");
}
