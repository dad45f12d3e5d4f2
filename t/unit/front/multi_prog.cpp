// SPDX-License-Identifier: Apache-2.0
#include "front/job_request.hpp"

#include <nlohmann/json.hpp>
#include "catch.hpp"

using namespace nacre;
using namespace nacre::front;

namespace {

using Words = std::vector<std::string>;

std::string error_of_file(std::string_view text) {
  auto parsed = MultiProg::parse(text);
  INFO(text);
  REQUIRE_FALSE(parsed);
  return parsed.error().message;
}

}  // namespace

TEST_CASE("words are split as a shell does") {
  CHECK(words_of("  a  b\tc ").value() == Words{"a", "b", "c"});
  CHECK(words_of(R"('a b' "c d" e\ f g'h'"i")").value() == Words{"a b", "c d", "e f", "ghi"});
  CHECK(words_of(R"("a\"b\\c\n$x" '\n')").value() == Words{R"(a"b\c\n$x)", R"(\n)"});
  CHECK(words_of(R"('' "")").value() == Words{"", ""});
  CHECK(words_of("a # b").value() == Words{"a"});
  CHECK(words_of("a#b").value() == Words{"a#b"});
  CHECK(words_of("a\\").value() == Words{"a\\"});
  CHECK(words_of("'a").error().message == "the quote ' is not closed");
}

TEST_CASE("a file of programs has ranks and a command a line") {
  auto parsed = MultiProg::parse("# srun's\n0 ./server -p 1\n1-3,5 \\\n  ./worker %t\n\n* idle\n");
  REQUIRE(parsed);
  REQUIRE(parsed->programs.size() == 3);
  CHECK(parsed->programs[0].ranks->str() == "0");
  CHECK(parsed->programs[0].command == Words{"./server", "-p", "1"});
  CHECK(parsed->programs[1].ranks->str() == "1-3,5");
  CHECK(parsed->programs[1].command == Words{"./worker", "%t"});
  CHECK_FALSE(parsed->programs[2].ranks);
  CHECK(parsed->least_tasks() == 6);
  CHECK(parsed->check(6));
  CHECK(parsed->check(60));
  CHECK(parsed->option() == Json::parse(R"([{"command": ["./server", "-p", "1"], "ranks": "0"},
    {"command": ["./worker", "%t"], "ranks": "1-3,5"}, {"command": ["idle"]}])"));
}

TEST_CASE("all tasks, and no others, need a program") {
  auto parsed = MultiProg::parse("0 a\n2 b\n").value();
  CHECK(parsed.check(2).error().message == "rank 2, but the job has 2 tasks: -n 3");
  CHECK(parsed.check(3).error().message == "no program for rank 1: add a line for it, or *");
  CHECK_FALSE(MultiProg::parse("* a\n").value().least_tasks());
}

TEST_CASE("a file of programs that is none says where") {
  CHECK(error_of_file("").starts_with("no program"));
  CHECK(error_of_file("# a\n\n").starts_with("no program"));
  CHECK(error_of_file("0 a\nx b\n") == "line 2: expected ranks, as 0-3,7, or *, got 'x'");
  CHECK(error_of_file("\n0\n") == "line 2: expected a program behind the ranks");
  CHECK(error_of_file("0 ''\n") == "line 1: expected a program behind the ranks");
  CHECK(error_of_file("0-3 a\n2-5 b\n") == "line 2: a line before has rank 2-3 too");
  CHECK(error_of_file("* a\n* b\n") == "line 2: a second *");
  CHECK(error_of_file("0 'a\n") == "line 1: the quote ' is not closed");
  CHECK(error_of_file(std::string_view("0 a\0b\n", 6)) == "line 1: an argument cannot have a NUL");
}
