// SPDX-License-Identifier: Apache-2.0
#include "core/unread_options.hpp"

#include <regex>

#include "catch.hpp"

#include "base/file.hpp"

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
    CHECK(unread((R"({")" + option + R"(": 1})").c_str()).empty());
    ++count;
  }
  CHECK(count > 40);
}
