// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/print.hpp"
#include "redirected.hpp"

using namespace nacre;

TEST_CASE("what cannot be printed is an error, once") {
  REQUIRE(flush_out());
  Error error;
  bool more = true;
  {
    kit::Redirected full(STDOUT_FILENO, UniqueFd(::open("/dev/full", O_WRONLY)).get());
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
    kit::Redirected closed(STDOUT_FILENO, UniqueFd(::open("/dev/null", O_RDONLY)).get());
    for (int i = 0; i < 100; ++i) print_out(std::string(4096, 'x'));
    failed = !flush_out();
  }
  CHECK(failed);
}

TEST_CASE("nothing is thrown where standard error takes nothing") {
  kit::Redirected full(STDERR_FILENO, UniqueFd(::open("/dev/full", O_WRONLY)).get());
  CHECK_NOTHROW(print_err("{} and {}\n", 1, 2));
}

TEST_CASE("a message as a line has its shell, its level unless that is notice, and its component") {
  CHECK(log_line({Level::notice, "", "", 0, "text"}, 3) == "nacre-shell[3]: text");
  CHECK(log_line({Level::warn, "oom", "f.cpp", 7, "text"}, 0) == "nacre-shell[0]: warn: oom: text");
  CHECK(log_line({Level::error, "", "", 0, "text", 5}, 3) == "nacre-shell[5]: error: text");
}
