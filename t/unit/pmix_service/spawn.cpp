// SPDX-License-Identifier: Apache-2.0
//
// PMIx_Spawn, with real processes that the builtin plugin pmi starts.
#include <signal.h>

#include <filesystem>
#include <fstream>

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
    listen();
    connect(0);
    answers.statuses.clear();
  }
  // Ends leftovers of a failed test.
  ~Spawning() {
    for (pid_t pid : event::Children::descendants()) ::kill(pid, SIGKILL);
  }

  static SpawnApp sh(const std::string& script, int count = 1) {
    return {{"/bin/sh", "-c", script}, {}, "", count};
  }
  pmix_status_t spawn(const std::vector<SpawnApp>& apps, const InfoList& about = {}) {
    pmix_proc_t who = proc_of("nacre-1", 0);
    std::size_t before = answers.statuses.size();
    service->spawns().spawn(who, about, apps, Answers::spawned, &answers);
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
    auto found = host.holds.find("pmi-spawn");
    return found != host.holds.end() ? found->second : 0;
  }
  void finish() {
    plugin::Call call("shell.finish");
    REQUIRE(host.stack().call(call));
    service->tasks_are_over();
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
  SpawnApp second{{"/bin/sh", "-c", script}, {"MORE=more"}, "/tmp", 1};
  InfoList about;
  about.string(PMIX_WDIR, job.directory);
  CHECK(job.spawn({Spawning::sh(script, 2), second}, about) == PMIX_SUCCESS);
  CHECK(job.answers.nspace == "nacre-1-spawn-1");
  CHECK(job.holds() == 1);
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
  SpawnApp missing{{"/no/such/program"}, {}, "", 1};
  CHECK(job.spawn({Spawning::sh(kGoOn, 2), missing}) == PMIX_ERR_JOB_EXE_NOT_FOUND);
  CHECK(job.logged("error") == Texts{"rank 0: PMIx_Spawn: /no/such/program: No such file or directory"});
  job.ends();
  CHECK(job.raised().empty());
  CHECK(job.logged("warn").empty());
  job.finalize(0);
  job.exit(0, 0);
  job.finish();
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

TEST_CASE("spawn: one that is killed, or leaves as a client, ends the job") {
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
  REQUIRE(job.host.serve([&] { return !job.raised().empty(); }));
  job.host.kill_tasks(SIGTERM);
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

TEST_CASE("spawn: they get the signals of the tasks, and nothing is spawned once the shell has had SIGTERM") {
  Spawning job;
  CHECK(job.spawn({Spawning::sh(kGoOn, 2)}) == PMIX_SUCCESS);
  REQUIRE(job.comes("runs.0"));
  REQUIRE(job.comes("runs.1"));
  ::raise(SIGTERM);
  job.host.kill_tasks(SIGTERM);
  job.ends();
  CHECK(job.raised().empty());  // the shell knows
  CHECK(job.spawn({Spawning::sh("exit 0")}) == PMIX_ERR_JOB_CANCELED);
}

TEST_CASE("spawn: when the tasks have ended the server serves on until the spawned ones have") {
  Spawning job;
  std::string script = "exec 2> /dev/null; : > $OUT/runs.$PMIX_RANK; while [ ! -e $OUT/go ]; do sleep 0.02; done";
  CHECK(job.spawn({Spawning::sh(script)}) == PMIX_SUCCESS);
  REQUIRE(job.comes("runs.0"));
  job.finalize(0);
  job.exit(0, GENERATE(0, 3));
  job.finish();
  CHECK(job.server->runs());
  std::ofstream(job.directory + "/go").close();
  job.ends();
  CHECK_FALSE(job.server->runs());
  CHECK(job.raised().empty());
}

TEST_CASE("spawn: without the builtin plugin pmi it fails, and that is said") {
  Served job(1);
  job.start();
  job.service->spawns().spawn(proc_of("nacre-1", 0), {}, {Spawning::sh("exit 0")}, Answers::spawned, &job.answers);
  CHECK(job.answers.statuses == std::vector<pmix_status_t>{PMIX_ERR_JOB_FAILED_TO_LAUNCH});
  CHECK(job.logged("error") ==
        Texts{"rank 0: PMIx_Spawn: the builtin plugin pmi, which starts processes, is not loaded"});
}

// ---- several nodes ---------------------------------------------------------------------------

namespace {

// A job of two nodes with two tasks each, of which this is shell 0: rank 1 has spawned three, two of them on
// shell 1.
struct OfTwoNodes : Served {
  explicit OfTwoNodes(const Json& options = Json::object()) : Served(2, options, 2) {
    start();
    begin(1, {0, 1, 1});
  }
  Json begin(int number, const std::vector<int>& places) {
    return call(
        &Spawns::begins,
        {{"number", number},
         {"nspace", "nacre-1"},
         {"rank", 1},
         {"task", 1},
         {"places", places},
         {"programs", {{{"name", "a"}, {"processes", 2}}, {{"name", "b"}, {"processes", places.size() - 2}}}}});
  }
  void settle(int number, const char* error = nullptr) {
    Json in{{"number", number}};
    if (error != nullptr) in.update({{"error", error}, {"errnum", EINVAL}});
    call(&Spawns::settled, in);
  }
  // Another shell sends the message.
  void hear(PeerMessage message) {
    message.shell = 1;
    std::string bytes = encode(message);
    flux_t* handle = flux_shell_get_flux(plugin->shell.get());
    flux_future_destroy(flux_event_publish_raw(handle, "nacre-pmix", 0, bytes.data(), bytes.size()));
  }
  void fence(const char* nspace) {
    pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD);
    service->peers().fence({all}, PMIX_SUCCESS, "mine", 0, {fenced, &answers});
  }
  static void fenced(pmix_status_t status, const char* /*data*/, std::size_t size, void* arg,
                     pmix_release_cbfunc_t release, void* kept) {
    static_cast<Answers*>(arg)->statuses.push_back(status);
    static_cast<Answers*>(arg)->nspace = std::to_string(size);
    release(kept);
  }
  const char* spawned = "nacre-1-spawn-1";
};

}  // namespace

TEST_CASE("spawn: all nodes know the same of a namespace, also a node that has none of it") {
  OfTwoNodes job;
  const JobFacts& facts = job.server->jobs.back();
  CHECK(facts.nspace == job.spawned);
  CHECK(facts.global_offset == 4);
  CHECK(facts.app_sizes == std::vector<std::uint32_t>{2, 1});
  REQUIRE(facts.nodes.size() == 2);
  CHECK(facts.nodes[1].host == "fake1");
  CHECK(facts.nodes[1].ranks == std::vector<pmix_rank_t>{1, 2});
  CHECK(facts.here().ranks == std::vector<pmix_rank_t>{0});
  REQUIRE(facts.parent);
  CHECK(facts.parent->rank == 1);
  Json out = job.begin(2, {1, 1});
  CHECK(out["pmix"]["environments"].empty());
  CHECK(job.server->jobs.back().global_offset == 7);
  CHECK(job.server->jobs.back().this_node == JobFacts::kNowhere);
  CHECK(job.server->jobs.back().here().ranks.empty());
  job.server->errors["add_job"] = "no memory";
  CHECK(job.begin(3, {0, 1})["pmix"]["error"] == "no memory");
}

TEST_CASE("spawn: a fence of the processes waits until all nodes know them, and for the others' part") {
  OfTwoNodes job;
  job.said.clear();
  job.fence(job.spawned);
  CHECK(job.said.empty());
  job.settle(1);
  REQUIRE(job.host.serve([&] { return job.said.size() == 1; }));
  CHECK(job.answers.statuses.empty());
  job.hear({.kind = PeerMessage::Kind::part, .texts = {"f4-6", "theirs"}});
  REQUIRE(job.host.serve([&] { return job.answers.statuses.size() == 1; }));
  CHECK(job.answers.statuses[0] == PMIX_SUCCESS);
  CHECK(job.answers.nspace == "10");
}

TEST_CASE("spawn: what waits is refused, if not all nodes could start theirs") {
  OfTwoNodes job;
  job.fence(job.spawned);
  job.settle(1, "no such program");
  CHECK(job.answers.statuses == std::vector<pmix_status_t>{PMIX_ERR_JOB_CANCELED});
  CHECK(job.service->peers().left_on(1).size() == 2);  // the tasks
}

TEST_CASE("spawn: data of a process of another node is asked for there, and of this node is found here") {
  OfTwoNodes job;
  job.settle(1);
  job.said.clear();
  job.service->peers().direct_modex(proc_of(job.spawned, 2), "", 0, {OfTwoNodes::fenced, &job.answers});
  REQUIRE(job.host.serve([&] { return job.said.size() == 1; }));
  job.hear({.kind = PeerMessage::Kind::answer, .to = 0, .number = 1, .texts = {"data"}});
  REQUIRE(job.host.serve([&] { return job.answers.statuses.size() == 1; }));
  job.hear({.kind = PeerMessage::Kind::ask, .to = 0, .number = 5, .rank = 4, .texts = {""}});
  const std::string asked = "find_modex nacre-1-spawn-1.0 ";
  REQUIRE(job.host.serve([&] { return job.server->calls.back().starts_with(asked); }));
}

namespace {

// Another node asks for a key of rank 0.
struct Asked : OfTwoNodes {
  explicit Asked(int timeout = 0) {
    settle(1);
    said.clear();
    hear({.kind = PeerMessage::Kind::ask, .to = 0, .number = 5, .rank = 0, .status = timeout, .texts = {"port"}});
    number = is_asked("look_up_key nacre-1.0 port ");
  }
  // Returns the number of the question; `call` has to be the last one to libpmix.
  std::uintptr_t is_asked(const std::string& call) {
    REQUIRE(host.serve([&] { return server->calls.back().starts_with(call); }));
    std::uintptr_t question = std::stoul(server->calls.back().substr(call.size()));
    server->calls.emplace_back("");
    return question;
  }
  void has_committed(const char* what) {
    std::string data = what;
    modex_found(PMIX_SUCCESS, data.data(), data.size(), reinterpret_cast<void*>(number));
    read();
  }
  void looked(pmix_status_t status) { pmix::key_looked_up(status, number), read(); }
  bool answers(pmix_status_t status, const char* data = "") {
    const std::string answer =
        encode({.kind = PeerMessage::Kind::answer, .to = 1, .number = 5, .status = status, .texts = {data}});
    return host.serve([&] {
      return std::any_of(said.begin(), said.end(),
                         [&](const auto& each) { return each.find(answer) != each.npos; });
    });
  }
  std::uintptr_t number = 0;
};

}  // namespace

TEST_CASE("modex: a key that another node wants and that is there is answered with all") {
  Asked job;
  job.looked(PMIX_SUCCESS);
  CHECK(job.is_asked("find_modex nacre-1.0 ") == job.number);
  job.has_committed("all");
  CHECK(job.answers(PMIX_SUCCESS, "all"));
}

TEST_CASE("modex: one that is not there is looked for until it is, after the first commit as before") {
  Asked job(60);
  job.looked(PMIX_ERR_NOT_FOUND);
  job.is_asked("find_modex nacre-1.0 ");  // libpmix waits for the first commit
  job.has_committed("old");
  for (int i = 0; i < 3; ++i) {
    job.is_asked("look_up_key nacre-1.0 port ");
    job.looked(PMIX_ERR_NOT_FOUND);
  }
  CHECK(job.said.size() == 1);  // the question
  job.is_asked("look_up_key nacre-1.0 port ");
  job.looked(PMIX_SUCCESS);
  job.is_asked("find_modex nacre-1.0 ");
  job.has_committed("old and new");
  CHECK(job.answers(PMIX_SUCCESS, "old and new"));
}

TEST_CASE("modex: the client's timeout ends the wait; without one what there is comes after libpmix's own") {
  {
    Asked timed(1);
    timed.looked(PMIX_ERR_NOT_FOUND);
    timed.has_committed("old");
    CHECK(timed.answers(PMIX_ERR_TIMEOUT));
  }
  Asked untimed;
  untimed.looked(PMIX_ERR_NOT_FOUND);
  untimed.is_asked("find_modex nacre-1.0 ");
  untimed.has_committed("old");
  untimed.is_asked("look_up_key nacre-1.0 port ");  // libpmix does not answer this
  untimed.is_asked("find_modex nacre-1.0 ");
  untimed.has_committed("old");
  CHECK(untimed.answers(PMIX_SUCCESS, "old"));
}

TEST_CASE("modex: once the process has ended what it has committed is the answer, or that it has nothing") {
  {
    Asked nothing(60);
    nothing.looked(PMIX_ERR_NOT_FOUND);
    nothing.exit(0, 0);
    CHECK(nothing.answers(PMIX_ERR_NOT_FOUND));
  }
  Asked something(60);
  something.looked(PMIX_ERR_NOT_FOUND);
  something.has_committed("old");
  something.exit(0, 0);
  something.is_asked("find_modex nacre-1.0 ");
  something.has_committed("old");
  CHECK(something.answers(PMIX_SUCCESS, "old"));
}

TEST_CASE("spawn: with fault-tolerance those of a lost node count as killed, as its tasks do") {
  const Json tolerant = {{"fault-tolerance", true}};
  OfTwoNodes job(tolerant);
  job.settle(1);
  job.service->ends().shell_lost(1);
  std::vector<pmix_rank_t> told;
  for (const auto& notice : job.server->notices) {
    if (notice.code == PMIX_EVENT_PROC_TERMINATED) told.push_back(notice.rank);
  }
  CHECK(told == std::vector<pmix_rank_t>{2, 3, 1, 2});
  CHECK(job.service->peers().left_on(1).empty());
}
