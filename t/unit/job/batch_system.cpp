// SPDX-License-Identifier: Apache-2.0
#include "job/batch_system.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using job::BatchSystem;
using Kind = BatchSystem::Kind;

namespace {

BatchSystem of(const std::map<std::string, std::string>& variables) {
  return BatchSystem::of_environment([&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

TEST_CASE("the manager of an allocation is known by its variables") {
  CHECK(of({}).kind == Kind::none);
  CHECK(of({{"PBS_JOBID", ""}}).kind == Kind::none);
  CHECK(of({{"PBS_JOBID", "1.s"}}).kind == Kind::pbs);
  CHECK(of({{"LSB_JOBID", "1"}}).kind == Kind::lsf);
  CHECK(of({{"FLUX_JOB_ID", "f1"}}).obstacle()->find("Flux") != std::string::npos);
}

TEST_CASE("Slurm takes a host back unless it would end the shells with it") {
  CHECK_FALSE(of({{"SLURM_JOB_ID", "7"}}).obstacle());
  CHECK(of({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}).obstacle());
  CHECK_FALSE(of({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {BatchSystem::kStepSurvives, "1"}}).obstacle());
  CHECK_FALSE(of({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "4294967290"}}).obstacle());  // an interactive shell
}

TEST_CASE("each manager has its command") {
  auto hosts = value::Hostlist::parse("n[1-2]").value();
  using Words = std::vector<std::string>;
  CHECK(of({{"PBS_JOBID", "1.s"}}).release(hosts).argv == Words{"pbs_release_nodes", "-j", "1.s", "n1", "n2"});
  CHECK(of({{"LSB_JOBID", "5"}}).release(hosts).argv == Words{"bresize", "release", "n1 n2", "5"});
  BatchSystem::Command slurm = of({{"SLURM_JOB_ID", "7"}}).release(hosts);
  CHECK(Words(slurm.argv.end() - 3, slurm.argv.end()) == Words{"7", "n1", "n2"});
  CHECK(slurm.name == "scontrol update JobId=7 without n[1-2]");
  CHECK(BatchSystem::of_command("give").release(hosts).argv ==
        Words{"/bin/sh", "-c", "give", "elastic.manager", "n1", "n2"});
}
