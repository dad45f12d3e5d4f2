// SPDX-License-Identifier: Apache-2.0
#include "elastic/roster.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT

namespace {

// Two tasks on each of two shells, and a spare.
job::Job fresh() {
  job::Job job;
  for (std::uint32_t shell = 0; shell < 3; ++shell)
    job.resources.nodes.push_back({shell, "n", value::Idset::range(0, 1), {}, {}});
  job.taskmap = value::Taskmap::block({2, 2, 0});
  job.spares = 1;
  return job;
}

}  // namespace

TEST_CASE("what a job has come to is the same for a shell that joins") {
  job::Job job = fresh();
  job.start_again(value::Idset::range(0, 0));
  job.move({value::Idset::range(2, 3), 1, 2, 2});
  Json state = elastic::job_state(job);
  CHECK(state.dump() == R"({"moves":[["2-3",1,2,2]],"restarts":2,"starts":[[0,2]]})");
  job::Job newcomers = fresh();
  REQUIRE(elastic::take_job_state(JsonAt::root(state), newcomers));
  CHECK(newcomers.taskmap.raw() == "0-1;;2-3");
  CHECK(newcomers.restarts == 2);
  CHECK(newcomers.attempt_of(0) == 2);
  CHECK(newcomers.attempt_of(3) == 2);
  CHECK(newcomers.tasks_have_left(1));
  CHECK(elastic::job_state(newcomers) == state);
  job.unfit.insert(1);
  REQUIRE(elastic::take_job_state(JsonAt::root(elastic::job_state(job)), newcomers));
  CHECK(newcomers.unfit.str() == "1");
}

TEST_CASE("a shell that joins knows the sizes that the job has had, and what has moved between them") {
  auto begin = [] {
    job::Job job = fresh();
    job.tasks_each = 2;
    job.task_limit = 6;
    return job;
  };
  job::Job job = begin();
  job.move({value::Idset::range(2, 3), 1, 2, 2});
  job.resize(value::Idset::parse("0,2").value());
  job.move({value::Idset::range(2, 3), 2, 1, 4});
  job.resize(value::Idset::range(1, 1));
  Json state = elastic::job_state(job);
  job::Job newcomers = begin();
  REQUIRE(elastic::take_job_state(JsonAt::root(state), newcomers));
  CHECK(newcomers.taskmap.raw() == job.taskmap.raw());
  CHECK(newcomers.attempt_of(0) == job.attempt_of(0));
  CHECK(newcomers.restarts == 4);
  for (std::uint32_t shell = 0; shell < 3; ++shell) {
    for (value::Idset::Id rank = 0; rank < 4; ++rank)
      CHECK(newcomers.has_had(shell, rank) == job.has_had(shell, rank));
  }
  CHECK(elastic::job_state(newcomers) == state);
  job::Job fixed = fresh();
  CHECK_FALSE(elastic::take_job_state(JsonAt::root(state), fixed));
}

TEST_CASE("what is no state of a job is refused, with its place") {
  struct Row {
    const char* text;
    const char* words;
  };
  for (const Row& row :
       {Row{R"({"moves": [], "starts": []})", "restarts"},
        Row{R"({"moves": [["0", 1, 2]], "starts": [], "restarts": 0})", "moves[0]: expected a move"},
        Row{R"({"moves": [["0", 1, 2, 0]], "starts": [], "restarts": 0})", "moves[0][3]"},
        Row{R"({"moves": [], "starts": [[1]], "restarts": 0})", "starts[0]: expected [RANK, START]"},
        Row{R"({"moves": [], "starts": [[1, 0]], "restarts": 0})", "starts[0][1]"}}) {
    CAPTURE(row.text);
    Json json = Json::parse(row.text);
    job::Job job = fresh();
    auto taken = elastic::take_job_state(JsonAt::root(json), job);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().message.find(row.words) != std::string::npos);
  }
}
