// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include "catch.hpp"

using namespace nacre;
using job::EndTime;

namespace {

Result<std::optional<EndTime>> manager(const std::string& slurm) {
  return job::manager_end([&](const char* name) {
    return std::string(name) == "SLURM_JOB_END_TIME" ? std::optional(slurm) : std::nullopt;
  });
}

}  // namespace

TEST_CASE("Slurm says when a job's time is over") {
  auto end = manager("1700000000");
  REQUIRE(end);
  REQUIRE(*end);
  CHECK((*end)->at == 1700000000);
  CHECK((*end)->over == "the time that Slurm has given is over");
  for (const char* none : {"", "0"}) {
    REQUIRE(manager(none));
    CHECK_FALSE(*manager(none));
  }
  auto no_manager = job::manager_end([](const char*) { return std::nullopt; });
  REQUIRE(no_manager);
  CHECK_FALSE(*no_manager);
}

TEST_CASE("an end that is no time is an error") {
  for (const char* text : {"soon", "-5", "1.5", "17000000000000000000", "1 "}) {
    auto end = manager(text);
    REQUIRE_FALSE(end);
    CHECK(end.error().message ==
          "SLURM_JOB_END_TIME: expected seconds since the Epoch, got '" + std::string(text) + "'");
  }
}

TEST_CASE("R's expiration is what counts, if it has one") {
  job::Resources resources;
  auto variables = [](const char*) { return std::optional<std::string>("1700000000"); };
  CHECK((*job::end_time(resources, variables))->at == 1700000000);
  resources.expiration = 5;
  CHECK((*job::end_time(resources, variables))->at == 5);
  CHECK((*job::end_time(resources, variables))->over == "R has expired");
}

TEST_CASE("the earliest end of all that are known") {
  job::Resources resources;
  const std::optional<EndTime> none, manager(EndTime{1000, "manager"});
  const auto limit = std::optional(value::Duration::of_seconds(100));
  auto at = [&](const auto& by_manager, const std::optional<value::Duration>& by_option, double duration) {
    auto end = job::earliest_end(resources, by_manager, by_option, duration, 500);
    return end ? end->at : -1;
  };
  CHECK(at(none, std::nullopt, 0) == -1);
  CHECK(at(manager, std::nullopt, 0) == 1000);
  CHECK(at(none, limit, 0) == 600);
  CHECK(at(none, std::nullopt, 300) == 800);
  CHECK(at(none, limit, 50) == 600);  // the option is what counts
  CHECK(at(none, value::Duration::infinite(), 50) == -1);
  CHECK(at(manager, std::nullopt, 300) == 800);
  CHECK(at(manager, std::nullopt, 600) == 1000);
  resources.expiration = 700;
  CHECK(at(manager, std::nullopt, 300) == 700);
  CHECK(at(manager, limit, 300) == 600);
  CHECK(job::earliest_end(resources, none, std::nullopt, 0, 500)->over == "R has expired");
}

TEST_CASE("the time left that squeue prints") {
  for (auto [text, seconds] :
       {std::pair{"45", 45}, {"1:05", 65}, {"59:59\n", 3599}, {"2:00:01", 7201}, {"1-00:00:00", 86400}})
    CHECK(job::parse_slurm_time_left(text).value() == seconds);
  CHECK_FALSE(job::parse_slurm_time_left("UNLIMITED").value());
  CHECK_FALSE(job::parse_slurm_time_left("NOT_SET").value());
  for (const char* text : {"", "INVALID", "1:2:3:4", "-1", "x-1:00", "1:-2"})
    CHECK_FALSE(job::parse_slurm_time_left(text));
}
