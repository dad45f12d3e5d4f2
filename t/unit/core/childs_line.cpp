// SPDX-License-Identifier: Apache-2.0
#include "core/shell_tasks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"

#include "join/guard.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::join;  // NOLINT

namespace {

void in_child(const std::function<void()>& what) {
  pid_t pid = ::fork();
  if (pid == 0) {
    what();
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

}  // namespace

TEST_CASE("the first line that a child writes is what its parent reads") {
  ChildsLine line;
  CHECK(line.text().empty());
  in_child([&] {
    line.write("the first");
    line.write("the second");
    if (!line.failed()) ::_exit(1);
  });
  CHECK(line.text() == "the first");
  CHECK(!line.was_busy());
}

TEST_CASE("a child's line that is too long is cut") {
  ChildsLine line;
  in_child([&] { line.write(std::string(5000, 'x')); });
  CHECK(line.text() == std::string(3999, 'x'));
}

TEST_CASE("a parent knows that its child has ended within what it was busy with") {
  ChildsLine line;
  in_child([&] {
    line.set_busy(true);
    ::_exit(0);
  });
  CHECK(line.was_busy());
  in_child([&] { line.set_busy(false); });
  CHECK(!line.was_busy());
  CHECK(line.text().empty());
}

TEST_CASE("a record for the guard has its kind and its size in front, and is whole or not there") {
  CHECK(guard_record(GuardKind::directory, "/a") == std::string("\2\2\0/a", 5));
  CHECK(guard_record(GuardKind::no_directory, "") == std::string("\3\0\0", 3));
  CHECK(guard_record(GuardKind::group, std::string(300, 'p')).substr(0, 3) == "\1\x2c\1");
  std::string largest(4096 - 3, 'x');  // PIPE_BUF
  CHECK(guard_record(GuardKind::directory, largest).size() == 4096);
  CHECK(guard_record(GuardKind::directory, largest + "x").empty());
}
