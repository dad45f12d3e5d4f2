// SPDX-License-Identifier: Apache-2.0
#include "core/shell.hpp"

#include <regex>

#include "catch.hpp"

#include "base/file.hpp"
#include "job/option_table.hpp"

using namespace nacre;
using core::unread_options;

namespace {

using Lines = std::vector<std::string>;

Lines unread(const char* set, const char* system = "{}", std::initializer_list<const char*> asked = {}) {
  job::Options options(Json::parse(set));
  for (const char* each : asked) static_cast<void>(options.find(each));
  job::Jobspec spec;
  spec.document = Json{{"attributes", {{"system", Json::parse(system)}}}};
  return unread_options(options, spec);
}

}  // namespace

TEST_CASE("an option that nobody has read is named, with the one that may be meant") {
  CHECK(unread(R"({"exit-timeout": 1, "output": {"x": 1}})").empty());
  CHECK(unread(R"({"exit-timout": 1})") ==
        Lines{"no plugin reads the option exit-timout; did you mean exit-timeout?"});
  CHECK(unread(R"({"colour": 1})") == Lines{"no plugin reads the option colour"});
}

TEST_CASE("an option of a plugin counts as read once it was asked for, set or not") {
  CHECK(unread(R"({"colour": {"deep": 1}})", "{}", {"colour.other"}).empty());
  CHECK(unread(R"({"color": 1})", "{}", {"colour"}) ==
        Lines{"no plugin reads the option color; did you mean colour?"});
}

TEST_CASE(
    "an option that only a file of the installed initrc reads is named where none has read it, unless it is off") {
  CHECK(
      unread(R"({"omp-threads": "per-task"})") ==
      Lines{"the option omp-threads has no effect: only omp-threads.lua of the installed initrc reads it, and this "
            "job's initrc does not load that"});
  CHECK(unread(R"({"mpi": "openmpi"})").size() == 1);
  CHECK(unread(R"({"scratch": {"dir": "/x"}})").size() == 1);
  CHECK(unread(R"({"mpi": "none", "scratch": false, "vmstat": 0, "omp-threads": "off"})").empty());
  CHECK(unread(R"({"mpi": "openmpi"})", "{}", {"mpi"}).empty());
}

TEST_CASE("a member of the jobspec that is near to one that is read is named") {
  CHECK(unread("{}", R"({"cwd": "/", "queue": "x", "exec": {}, "mine": 1})").empty());
  CHECK(unread("{}", R"({"enviroment": {}})") ==
        Lines{"jobspec: attributes.system.enviroment is not read; did you mean environment?"});
}

TEST_CASE("all options of the manual page are known") {
  std::string text = read_file(NACRE_SOURCE_DIR "/doc/man/nacre-shell-options.7.scd").value();
  std::regex name(R"(\n\*([a-z][a-z-]*))");
  int count = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    std::string option = (*it)[1];
    if (option.starts_with("nacre-")) continue;  // in SEE ALSO
    INFO(option);
    const Lines lines = unread((R"({")" + option + R"(": 1})").c_str());
    const bool is_of_initrc = !job::file_that_reads(option).empty();
    CHECK((is_of_initrc
               ? lines.size() == 1 && lines[0].starts_with("the option " + option + " has no effect: only ")
               : lines.empty()));
    ++count;
  }
  CHECK(count > 40);
}
