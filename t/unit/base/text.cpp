// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <fcntl.h>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"

using namespace nacre;  // NOLINT

TEST_CASE("split keeps empty pieces") {
  CHECK(split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
}

TEST_CASE("numbers are whole or nothing") {
  CHECK(parse_u64("18446744073709551615") == UINT64_MAX);
  for (const char* bad : {"", " 1", "1 ", "+1", "-1", "0x1", "18446744073709551616"}) CHECK_FALSE(parse_u64(bad));
  CHECK(parse_i64("-5") == -5);
}

TEST_CASE("quoted text is safe to print") {
  CHECK(in_quotes("a\nb") == "'a\\x0ab'");
  CHECK(in_quotes(std::string(100, 'x')).size() == 80 + 5);
}

TEST_CASE("errors gain context from the outside") {
  CHECK(in("outer", in("inner", invalid("bad"))).message == "outer: inner: bad");
  CHECK(system_error(ENOENT, "x").message == "x: No such file or directory");
  CHECK(system_error(EMFILE, "x").message == "x (raise the limit with ulimit -n): Too many open files");
  CHECK(system_error(ENFILE, "x").message == "x (raise fs.file-max): Too many open files in system");
}

TEST_CASE("read_file names its file") {
  CHECK(read_file("/nonexistent/x").error().message == "/nonexistent/x: No such file or directory");
  CHECK(read_file("/").error().message == "/: Is a directory");
  CHECK(read_file("/dev/zero", 10000).error().message == "/dev/zero: larger than the limit of 10000 bytes");
  CHECK(read_file("/proc/self/stat")->size() > 20);
}

TEST_CASE("a descriptor is closed once, by its last owner") {
  auto pipe = make_pipe(O_CLOEXEC).value();
  int fd = pipe.read.get();
  {
    UniqueFd moved = std::move(pipe.read);
    CHECK_FALSE(pipe.read);
    CHECK(::fcntl(fd, F_GETFD) == FD_CLOEXEC);
  }
  CHECK(::fcntl(fd, F_GETFD) == -1);
}

TEST_CASE("a sink may be removed, and another added, while it runs") {
  Log log;
  std::string heard;
  log.add_sink("first", [&](const LogEntry& e) {
    std::string mine = "first:" + e.message + " ";
    log.remove_sink("first");
    log.add_sink("second", [&](const LogEntry& next) { heard += "second:" + next.message + " "; });
    log.log(Level::notice, "", "inner");
    heard += mine;
  });
  log.log(Level::notice, "", "outer");
  CHECK(heard == "second:inner first:outer second:outer ");
  log.log(Level::notice, "", "again");
  CHECK(heard == "second:inner first:outer second:outer second:again ");
}

TEST_CASE("a log drops what nobody wants, and a sink that logs does not loop") {
  Log log;
  std::vector<std::string> seen;
  log.add_sink("echo", [&](const LogEntry& e) {
    seen.push_back(e.message);
    log.log(Level::error, "echo", "again");
  });
  log.log(Level::debug, "", "{}", 1);
  CHECK(seen.empty());
  log.log(Level::notice, "", "{}", 2);
  CHECK(seen == std::vector<std::string>{"2"});
  CHECK(log.set_sink_level("echo", Level::quiet));
  CHECK_FALSE(log.set_sink_level("none", Level::quiet));
  log.log(Level::fatal, "", "3");
  CHECK(seen.size() == 1);
}
