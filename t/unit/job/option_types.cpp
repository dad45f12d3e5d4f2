// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT: the functions under test are nacre::job's

namespace {

// The result of reading the option `it` with this value, as JSON: an error is the text after the name.
template <typename Read>
Json read(Read reader, const char* value) {
  Json json = Json::parse(value);
  auto got = reader(JsonAt::root(json, "it"));
  if (!got) return got.error().message;
  return *got;
}

Json seconds(const char* value) {
  return read([](const JsonAt& at) { return job::seconds_option(at).map(&value::Duration::seconds); }, value);
}

Json ranks(const char* value) {
  return read(
      [](const JsonAt& at) -> Result<std::string> {
        auto ranks = TRY(job::ranks_option(at));
        return ranks ? ranks->str() : "all";
      },
      value);
}

Json size(const char* value) { return read(job::size_option, value); }
Json list(const char* value) { return read(job::list_option, value); }

}  // namespace

TEST_CASE("a time is a number of seconds or a duration, never negative") {
  CHECK(seconds("5") == 5);
  CHECK(seconds("0.25") == 0.25);
  CHECK(seconds("0") == 0);
  CHECK(seconds(R"("2m")") == 120);
  CHECK(seconds(R"("100ms")") == 0.1);
  CHECK(seconds(R"("7")") == 7);
  CHECK(job::seconds_option(JsonAt::root(Json("infinity"), "it"))->is_infinite());
  CHECK(seconds("-1") == "it: expected a time that is not negative, got -1");
  CHECK(seconds("true") == "it: expected seconds or a duration such as \"30s\", got true");
  CHECK(seconds("[1]") == "it: expected seconds or a duration such as \"30s\", got an array");
  CHECK(seconds(R"("soon")").get<std::string>().starts_with("it: "));
}

TEST_CASE("a size is a number of bytes, or has a unit, a power of 1024") {
  CHECK(size("4096") == 4096);
  CHECK(size("0") == 0);
  CHECK(size(R"("4096")") == 4096);
  CHECK(size(R"("1k")") == 1024);
  CHECK(size(R"("10M")") == 10 << 20);
  CHECK(size(R"("2g")") == std::uint64_t{2} << 30);
  CHECK(size(R"("1T")") == std::uint64_t{1} << 40);
  CHECK(size(R"("1.5k")") == 1536);
  for (const char* wrong :
       {R"("")", R"("M")", R"("10MB")", R"("10x")", R"("10 M")", R"("-1")", "-1", "1e19", R"("nan")", "[]"}) {
    CAPTURE(wrong);
    CHECK(size(wrong).get<std::string>().starts_with(
        "it: expected a number of bytes, such as 4096 or \"10M\", got "));
  }
}

TEST_CASE("ranks are all, an idset, a rank, or an array of ranks as the command line makes it") {
  CHECK(ranks(R"("all")") == "all");
  CHECK(ranks(R"("0-3,7")") == "0-3,7");
  CHECK(ranks("3") == "3");
  CHECK(ranks("[0,2]") == "0,2");
  CHECK(ranks(R"("[0-1]")") == "0-1");
  CHECK(ranks(R"("some")").get<std::string>().starts_with("it: "));
  CHECK(ranks("-1").get<std::string>().starts_with("it: "));
}

TEST_CASE("a list of names is an array, or text with commas") {
  CHECK(list(R"(["a", "b"])") == Json({"a", "b"}));
  CHECK(list(R"("a, b,c")") == Json({"a", "b", "c"}));
  CHECK(list("17") == Json({"17"}));
  CHECK(list("true").get<std::string>().starts_with("it: expected "));
  CHECK(list("[1]").get<std::string>().starts_with("it[0]: expected "));
}

TEST_CASE("kill-timeout is 5 s if it is not set") {
  CHECK(job::kill_timeout(job::Options())->seconds() == 5);
  CHECK(job::kill_timeout(job::Options(Json{{"kill-timeout", "100ms"}}))->seconds() == 0.1);
  CHECK(job::kill_timeout(job::Options(Json{{"kill-timeout", -1}})).error().message ==
        "kill-timeout: expected a time that is not negative, got -1");
}

TEST_CASE("ranks that a job of so many tasks has not") {
  auto check = [](const char* ranks, std::uint64_t tasks) {
    auto result = job::check_ranks("x.ranks", *value::Idset::parse(ranks), tasks);
    return result ? std::string() : result.error().message;
  };
  CHECK(job::check_ranks("x.ranks", std::nullopt, 1));
  CHECK(check("", 1).empty());
  CHECK(check("0-3", 4).empty());
  CHECK(check("0-4", 4) == "x.ranks: the job has no task 4; it has 0-3");
  CHECK(check("7", 1) == "x.ranks: the job has no task 7; its only one is 0");
}
