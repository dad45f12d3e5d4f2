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

TEST_CASE("what controls a terminal is escaped, in UTF-8 and in any other bytes") {
  CHECK(escape_controls("caf\xc3\xa9 \xc6\x92\t\xe2\x80\xa6 \xf0\x9f\x98\x80") ==
        "caf\xc3\xa9 \xc6\x92\t\xe2\x80\xa6 \xf0\x9f\x98\x80");
  CHECK(escape_controls("a\x1b[2J\r\n\x7f") == "a\\x1b[2J\\x0d\\x0a\\x7f");
  CHECK(escape_controls(std::string_view("\0", 1)) == "\\x00");
  CHECK(escape_controls("\xc2\x9b"
                        "2J\xc2\xa0") ==
        "\\xc2\\x9b"
        "2J\xc2\xa0");
  // No UTF-8: a single byte, too long a form, half of a pair, a code point above the last one, a cut sequence.
  CHECK(escape_controls("\x9b"
                        "2J") ==
        "\\x9b"
        "2J");
  CHECK(escape_controls("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");
  CHECK(escape_controls("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(escape_controls("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(escape_controls("x\xe2\x80") == "x\\xe2\\x80");
  // Characters that change the direction of text, and their neighbours.
  CHECK(escape_controls("\xe2\x80\xae|\xe2\x80\xaa|\xe2\x80\x8f|\xe2\x81\xa9|\xd8\x9c") ==
        "\\xe2\\x80\\xae|\\xe2\\x80\\xaa|\\xe2\\x80\\x8f|\\xe2\\x81\\xa9|\\xd8\\x9c");
  for (const char* text : {"\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x80\x8d", "\xe2\x81\xaa", "\xd8\x9b"})
    CHECK(escape_controls(text) == text);
  CHECK(escape_lines("a\x1b\nb\r\n") == "a\\x1b\nb\\x0d\n");
}

TEST_CASE("a message that a log passes on cannot control a terminal") {
  std::string seen;
  Log log;
  log.add_sink("one", [&](const LogEntry& e) { seen = e.message; });
  log.log(Level::error, "", "rank 1: {}", "\x1b]0;x\a");
  CHECK(seen == "rank 1: \\x1b]0;x\\x07");
}

using nacre::edit_distance;
using nacre::nearest;

TEST_CASE("edits are bytes inserted, removed, replaced, and neighbours swapped") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("torch", "torch") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("exit-timout", "exit-timeout") == 1);
  CHECK(edit_distance("prot", "port") == 1);
  CHECK(edit_distance("launch", "lanuhc") == 2);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is the one with the fewest edits") {
  const std::array<std::string, 4> known{"exit-timeout", "exit-policy", "pty", "pmi"};
  CHECK(nearest("exit-timout", known) == "exit-timeout");
  CHECK(nearest("exit-poliyc", known) == "exit-policy");
  CHECK(nearest("pmy", known) == "pty");  // the first of two
}

TEST_CASE("there is none for a name that is known, and for one that is like no other") {
  const std::array<std::string, 2> known{"pty", "exit-policy"};
  CHECK_FALSE(nearest("pty", known));
  CHECK_FALSE(nearest("p", known));
  CHECK_FALSE(nearest("cpu-affinity", known));
  CHECK_FALSE(nearest("exit", {}));
}

TEST_CASE("the question for the nearest name ends an error") {
  const std::array<std::string, 3> known{"launch", "run", std::string(101, 'a')};
  CHECK(nacre::did_you_mean("lanch", known) == "; did you mean launch?");
  CHECK(nacre::did_you_mean("xyz", known).empty());
  CHECK(nacre::did_you_mean("", known).empty());
  CHECK(nacre::did_you_mean(std::string(100, 'a'), known).empty());  // only that of 101 bytes is near
  CHECK(nacre::did_you_mean(std::string(100000, 'a'), known).empty());
}
