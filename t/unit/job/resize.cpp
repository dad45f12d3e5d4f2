// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "job/job.hpp"

using namespace nacre;  // NOLINT
using value::Idset;

namespace {

job::Jobspec spec_of(const char* nodes, std::uint32_t slots) {
  Json text = Json::parse(R"({"version": 1, "resources": [{"type": "node", "count": 1, "with": [{"type": "slot",
      "count": 1, "label": "t", "with": [{"type": "core", "count": 1}]}]}],
      "tasks": [{"command": ["a"], "slot": "t", "count": {"per_slot": 1}}],
      "attributes": {"system": {"duration": 0}}})");
  text["resources"][0]["count"] = nodes;
  text["resources"][0]["with"][0]["count"] = slots;
  return job::Jobspec::from_json(text).value();
}

job::Resources nodes(std::uint32_t count) {
  job::Resources out;
  for (std::uint32_t i = 0; i < count; ++i) out.nodes.push_back({i, "n", Idset::range(0, 3), {}, {}});
  return out;
}

// Two tasks on each of `count` nodes.
job::Job job_of(const char* range, std::uint32_t count) {
  job::Job out = job::Job::create(value::JobId(1), 0, spec_of(range, 2), nodes(count), std::nullopt).value();
  REQUIRE(out.allow_resizes());
  return out;
}

}  // namespace

TEST_CASE("a job of one size has as many tasks as it may get") {
  job::Job job = job::Job::create(value::JobId(1), 0, spec_of("3", 2), nodes(3), std::nullopt).value();
  CHECK(job.most_tasks() == 6);
  CHECK(job.nodes_in_use() == 3);
  CHECK(job.allow_resizes().error().message ==
        "resize: the jobspec asks for one number of nodes; a range is needed, as -N 2:8 has it");
}

TEST_CASE("a job is resized: ranks without gaps, later starts, and no numbers of the starts before") {
  job::Job job = job_of("2-4", 4);
  CHECK(job.most_tasks() == 8);
  job.start_again(Idset::range(3, 3));  // for the second time
  job.resize(Idset::parse("0,2-3").value());
  CHECK(job.tasks() == 6);
  CHECK(job.most_tasks() == 8);
  CHECK(job.taskmap.raw() == "0-1;;2-3;4-5");
  CHECK(job.nodes_in_use() == 3);
  CHECK(job.shells_in_use().str() == "0,2-3");
  CHECK(job.restarts == 2);
  for (Idset::Id rank = 0; rank < 8; ++rank) CHECK(job.attempt_of(rank) == 3);
  CHECK(job.jobspec_info()["nnodes"] == 3);
  CHECK(job.jobspec_info()["nslots"] == 6);
  CHECK(job.jobspec_info()["ntasks"] == 6);
  CHECK(job.stands_for(0) == 0);
  CHECK(job.stands_for(3) == 2);
  // Late messages of a shell may be about its former ranks.
  CHECK(job.has_had(3, 7));
  CHECK(job.has_had(1, 2));
  CHECK(job.has_had(3, 4));
  CHECK_FALSE(job.has_had(0, 7));
  CHECK(job.is_left_out(1));
  CHECK_FALSE(job.is_left_out(2));
}

TEST_CASE("it gets more, a spare stands in, and what that has moved counts until the next resize") {
  job::Job job = job_of("1-4", 2);
  job.grow({{0, "n", Idset::range(0, 3), {}, {}}, {0, "n", Idset::range(0, 3), {}, {}}});
  CHECK(job.spare_shells().str() == "2-3");
  job.resize(Idset::range(0, 2));
  CHECK(job.tasks() == 6);
  CHECK(job.spare_shells().str() == "3");
  job.move({Idset::range(2, 3), 1, 3, 3});
  CHECK(job.attempt_of(2) == 3);
  CHECK(job.shells_in_use().str() == "0,2-3");
  CHECK(job.stands_for(3) == 1);
  CHECK_FALSE(job.is_spare(3));
  job.resize(Idset::parse("2-3").value());
  CHECK(job.taskmap.raw() == ";;0-1;2-3");
  CHECK(job.attempt_of(0) == 4);
  CHECK(job.attempt_of(5) == 4);
  CHECK(job.has_had(1, 3));
  CHECK(job.stands_for(2) == 0);
  CHECK(job.stands_for(3) == 1);
  CHECK(job.is_spare(0));
}

TEST_CASE("which shells: those with tasks first, as many as the range has; too few are one line") {
  job::Job job = job_of("2-4", 4);
  job.grow({{0, "n", Idset::range(0, 3), {}, {}}});
  CHECK(job.shells_for(Idset::range(0, 4)).value().str() == "0-3");
  CHECK(job.shells_for(Idset::parse("1,3-4").value()).value().str() == "1,3-4");
  auto few = job.shells_for(Idset::parse("3").value());
  CHECK(few.error().code == ENOSPC);
  CHECK(few.error().message == "1 node is left, and the job needs at least 2 (-N 2:4)");
  CHECK(job.shells_for({}).error().message == "no node is left, and the job needs at least 2 (-N 2:4)");
  job::Job doubled = job_of("1-8:2:*", 4);
  CHECK(doubled.shells_for(Idset::range(1, 3)).value().str() == "1-2");
}

TEST_CASE("nodes that do not have as many tasks each are refused") {
  auto of = [](job::Jobspec spec, std::optional<job::PerResource> each) {
    return job::Job::create(value::JobId(1), 0, std::move(spec), nodes(3), each).value();
  };
  auto total = spec_of("2-4", 2);
  total.count = job::Jobspec::Count::total;
  total.count_value = 4;
  const char* uneven =
      "resize: each node has to have as many tasks as the jobspec has slots for it, and as another";
  CHECK(of(total, {}).allow_resizes().error().message == uneven);
  CHECK(of(spec_of("2-4", 2), job::PerResource{job::PerResource::Type::core, 1}).allow_resizes().error().message ==
        uneven);
  auto spares = job::Job::create(value::JobId(1), 0, spec_of("2-4", 2), nodes(3), std::nullopt, false, 1).value();
  CHECK(spares.allow_resizes().error().message.starts_with("resize: a job whose size changes has no spares"));
}
