// SPDX-License-Identifier: Apache-2.0
//
// PMIx_Spawn, with real processes.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "base/file.hpp"
#include "served.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::pmix;  // NOLINT
namespace fs = std::filesystem;

namespace {

using Texts = std::vector<std::string>;

// Rank 0 of one task spawns.
struct Spawning : Served {
  explicit Spawning(const Json& options = Json::object()) : Served(1, options) {
    host.environment().set("OUT", directory);
    start();
    connect(0);
    answers.statuses.clear();
  }
  // What a failed test leaves behind.
  ~Spawning() {
    for (pid_t pid : event::Children::descendants()) ::kill(pid, SIGKILL);
  }

  static Service::App sh(const std::string& script, int count = 1) {
    return {{"/bin/sh", "-c", script}, {}, "", count};
  }
  pmix_status_t spawn(const std::vector<Service::App>& apps, const InfoList& about = {}) {
    pmix_proc_t who = proc_of("nacre-1", 0);
    std::size_t before = answers.statuses.size();
    service->spawn(who, about, apps, Answers::spawned, &answers);
    REQUIRE(answers.statuses.size() == before + 1);
    return answers.statuses.back();
  }
  bool comes(const std::string& name) {
    return host.serve([&] { return fs::exists(directory + "/" + name); });
  }
  [[nodiscard]] std::string wrote(const std::string& name) const {
    return read_file(directory + "/" + name).value_or("(no file)");
  }
  [[nodiscard]] int holds() const {
    auto found = host.holds.find("pmix-spawn");
    return found != host.holds.end() ? found->second : 0;
  }
  void ends() {
    REQUIRE(host.serve([this] { return holds() == 0; }));
    CHECK(event::Children::descendants().empty());
  }
};

const std::string kGoOn = "exec 2> /dev/null; : > $OUT/runs.$PMIX_RANK; while :; do sleep 0.02; done";

}  // namespace

TEST_CASE("spawn: a namespace of its own, whose processes the job waits for") {
  Spawning job;
  std::string script = "pwd > $OUT/in.$PMIX_RANK; echo $PMIX_NAMESPACE $MORE > $OUT/is.$PMIX_RANK";
  Service::App second{{"/bin/sh", "-c", script}, {"MORE=more"}, "/tmp", 1};
  InfoList about;
  about.string(PMIX_WDIR, job.directory);
  CHECK(job.spawn({Spawning::sh(script, 2), second}, about) == PMIX_SUCCESS);
  CHECK(job.answers.nspace == "nacre-1-spawn-1");
  CHECK(job.holds() == 3);
  const JobFacts& facts = job.server->jobs.back();
  CHECK(facts.nspace == "nacre-1-spawn-1");
  CHECK(facts.app_sizes == std::vector<std::uint32_t>{2, 1});
  CHECK(facts.here().ranks == std::vector<pmix_rank_t>{0, 1, 2});
  CHECK(facts.global_offset == 1);
  REQUIRE(facts.parent);
  CHECK(facts.parent->rank == 0);
  job.ends();
  CHECK(job.wrote("in.1") == fs::canonical(job.directory).native() + "\n");
  CHECK(job.wrote("in.2") == "/tmp\n");
  CHECK(job.wrote("is.0") == "nacre-1-spawn-1\n");
  CHECK(job.wrote("is.2") == "nacre-1-spawn-1 more\n");
  CHECK(job.spawn({Spawning::sh("exit 0")}) == PMIX_SUCCESS);
  CHECK(job.server->jobs.back().nspace == "nacre-1-spawn-2");
  CHECK(job.server->jobs.back().global_offset == 4);
  job.ends();
  CHECK(job.raised().empty());
}

TEST_CASE("spawn: if one cannot be started none is, who asked is told, and the job goes on") {
  Spawning job;
  Service::App missing{{"/no/such/program"}, {}, "", 1};
  CHECK(job.spawn({Spawning::sh(kGoOn, 2), missing}) == PMIX_ERR_JOB_EXE_NOT_FOUND);
  CHECK(job.logged("error") == Texts{"rank 0: PMIx_Spawn: /no/such/program: No such file or directory"});
  job.ends();
  CHECK(job.raised().empty());
  CHECK(job.logged("warn").empty());
  job.finalize(0);
  job.exit(0, 0);
  job.service->tasks_are_over();
  CHECK_FALSE(job.server->runs());
  CHECK(job.raised().empty());
}

TEST_CASE("spawn: what cannot be meant, or libpmix refuses, starts nothing") {
  Spawning job;
  CHECK(job.spawn({{{}, {}, "", 1}}) == PMIX_ERR_JOB_NO_EXE_SPECIFIED);
  CHECK(job.spawn({Spawning::sh("exit 0", 0)}) == PMIX_ERR_JOB_NO_EXE_SPECIFIED);
  job.server->errors["add_job"] = "no memory";
  CHECK(job.spawn({Spawning::sh("exit 0")}) == PMIX_ERR_JOB_FAILED_TO_LAUNCH);
  CHECK(job.logged("error") == Texts{"rank 0: PMIx_Spawn: no memory"});
  CHECK(job.holds() == 0);
}

TEST_CASE("spawn: one that is killed, or leaves as a client, ends the job, and the other spawned ones with it") {
  Spawning job;
  CHECK(job.spawn({Spawning::sh(kGoOn, 2)}) == PMIX_SUCCESS);
  REQUIRE(job.comes("runs.0"));
  REQUIRE(job.comes("runs.1"));
  std::string script = GENERATE("kill -KILL $$", "exec 2> /dev/null; while [ ! -e $OUT/go ]; do sleep 0.02; done");
  CHECK(job.spawn({Spawning::sh(script)}) == PMIX_SUCCESS);
  pmix_proc_t who = proc_of("nacre-1-spawn-2", 0);
  bool leaves = script != "kill -KILL $$";
  if (leaves) {
    server_module().client_connected2(&who, nullptr, nullptr, 0, Answers::op, &job.answers);
    job.read();
    std::ofstream(job.directory + "/go").close();
  }
  job.ends();
  REQUIRE(job.raised().size() == 1);
  CHECK(job.raised()[0].starts_with(leaves
                                        ? "1: rank 0 of nacre-1-spawn-2 on fake0 exited with code 0 after PMIx_Init"
                                        : "137: rank 0 of nacre-1-spawn-2 on fake0 was killed by signal 9"));
}

TEST_CASE("spawn: an exit code of their own is named, of clients and of others, and does not end the job") {
  Spawning job;
  CHECK(job.spawn({Spawning::sh("exit 5")}) == PMIX_SUCCESS);
  job.ends();
  CHECK(job.logged("warn") == Texts{"rank 0 of nacre-1-spawn-1 on fake0, which was spawned, exited with code 5"});
  CHECK(job.raised().empty());
}

TEST_CASE("spawn: SIGTERM of the shell ends them, and nothing is spawned after it") {
  Spawning job;
  CHECK(job.spawn({Spawning::sh(kGoOn, 2)}) == PMIX_SUCCESS);
  REQUIRE(job.comes("runs.0"));
  REQUIRE(job.comes("runs.1"));
  ::raise(SIGTERM);
  job.ends();
  CHECK(job.raised().empty());  // the shell knows
  CHECK(job.spawn({Spawning::sh("exit 0")}) == PMIX_ERR_JOB_CANCELED);
}

TEST_CASE(
    "spawn: when the tasks have ended well the server serves on until the spawned ones have; else they are ended") {
  bool well = GENERATE(true, false);
  Spawning job;
  std::string script = "exec 2> /dev/null; : > $OUT/runs.$PMIX_RANK; while [ ! -e $OUT/go ]; do sleep 0.02; done";
  CHECK(job.spawn({Spawning::sh(script)}) == PMIX_SUCCESS);
  REQUIRE(job.comes("runs.0"));
  job.finalize(0);
  job.exit(0, well ? 0 : 3);
  job.service->tasks_are_over();
  CHECK(job.server->runs());
  if (well) std::ofstream(job.directory + "/go").close();
  job.ends();
  CHECK_FALSE(job.server->runs());
  CHECK(job.raised().empty());
}

TEST_CASE("spawn: in a job of several nodes it is refused, and said") {
  Served job(1, Json::object(), 2);
  job.start();
  pmix_proc_t who = proc_of("nacre-1", 0);
  job.service->spawn(who, {}, {{{"/bin/true"}, {}, "", 1}}, Answers::spawned, &job.answers);
  CHECK(job.answers.statuses == std::vector<pmix_status_t>{PMIX_ERR_NOT_SUPPORTED});
  CHECK(job.logged("error") == Texts{"rank 0: PMIx_Spawn: processes can be added to a job of one node only"});
}
