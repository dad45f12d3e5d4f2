// SPDX-License-Identifier: Apache-2.0
#include "job/end_time.hpp"

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
