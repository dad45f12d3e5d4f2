// SPDX-License-Identifier: Apache-2.0
//
// Tasks that all start again, in a new namespace.
#include <sys/wait.h>

#include "served.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::pmix;  // NOLINT

namespace {

using Texts = std::vector<std::string>;
const Json kAgain = {{"restart", "on-failure,backoff=0s"}};

bool was_called(const Texts& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Ends the process of a task of this shell that is to start again.
void ends_to_start_again(Served& job, std::size_t local_id, const value::WaitStatus& status) {
  task::Task& task = *job.host.tasks()[local_id];
  task.set_starts_again(true);
  task.exited(status, {});
  REQUIRE(job.service->task_ended(capi::handle(&task)) == 0);
}

// Makes the task that takes the place of one that has ended.
std::unique_ptr<task::Task> next_of(Served& job, std::size_t local_id) {
  task::Command command{job.host.job().spec.command, job::Environment::over(job.host.environment()), {}};
  auto next = std::make_unique<task::Task>(job.host.tasks()[local_id]->rank(), static_cast<std::uint32_t>(local_id),
                                           std::move(command));
  REQUIRE(job.service->prepare_task(capi::handle(next.get())) == 0);
  return next;
}

void said_by_other(Served& job, PeerMessage message) {
  std::string bytes = encode(message);
  flux_t* handle = flux_shell_get_flux(job.plugin->shell.get());
  flux_future_destroy(flux_event_publish_raw(handle, "nacre-pmix", 0, bytes.data(), bytes.size()));
}

struct Fence {
  int answers = 0;
  pmix_status_t status = 1;
  std::string bytes;
  ModexReply reply() {
    auto done = [](pmix_status_t result, const char* data, std::size_t size, void* self,
                   pmix_release_cbfunc_t release, void* kept) {
      auto& fence = *static_cast<Fence*>(self);
      ++fence.answers;
      fence.status = result;
      fence.bytes.assign(data != nullptr ? data : "", size);
      if (release != nullptr) release(kept);
    };
    return {done, this};
  }
};

std::vector<pmix_proc_t> all_of(const char* nspace) { return {proc_of(nspace, PMIX_RANK_WILDCARD)}; }

}  // namespace

TEST_CASE(
    "how a task starts again: alone until a task of its shell is a client, then with all; one of a lost shell with "
    "all") {
  Served job(2, kAgain, 2);
  job.start();
  CHECK(job.service->how_to_restart(0) == "alone");
  CHECK(job.service->how_to_restart(2) == "together");  // rank 2 is on another shell
  CHECK(job.service->how_to_restart(UINT32_MAX) == "together");
  job.post_connected(1);  // not read yet
  CHECK(job.service->how_to_restart(0) == "together");
  job.finalize(1);
  CHECK(job.service->how_to_restart(0) == "together");
}

TEST_CASE("with fault-tolerance nothing starts again that is a client") {
  Served job(1, {{"restart", "always"}, {"fault-tolerance", true}});
  job.start();
  CHECK(job.service->how_to_restart(0) == "alone");
  CHECK(job.service->how_to_restart(9) == "the other tasks go on without it in PMIx (fault-tolerance)");
  job.connect(0);
  CHECK(job.service->how_to_restart(0) == "tasks have called PMIx_Init, and go on without it (fault-tolerance)");
}

TEST_CASE("once processes were spawned nothing starts again, also on a shell that has none of them") {
  std::uint32_t shells = GENERATE(1, 2);
  Served job(1, kAgain, shells);
  job.start();
  job.connect(0);
  Json programs = {{{"name", "a"}, {"processes", 1}}};
  job.call(&Spawns::begins, {{"start", 1},
                             {"number", 1},
                             {"nspace", "nacre-1"},
                             {"rank", 0},
                             {"task", 0},
                             {"places", {shells - 1}},
                             {"programs", programs}});
  CHECK(job.service->how_to_restart(0) == "processes that tasks have spawned by PMIx do not start again");
}

TEST_CASE("only a server of a job that may start again, or tolerates faults, shares no locks with clients") {
  for (auto [restart, lockless] : {std::pair("never", false), std::pair("on-request,scope=job", true)}) {
    Served job(1, {{"restart", restart}});
    REQUIRE(job.service->start() == 0);
    CHECK(job.server->facts->lockless == lockless);
    CHECK(job.service->outlives_clients() == lockless);
    CHECK_FALSE(job.service->fault_tolerant());
  }
}

TEST_CASE("a task that starts again alone is a client like others, and its end no failure") {
  Served job(2, kAgain);
  job.start();
  ends_to_start_again(job, 0, value::WaitStatus::exited(3));
  CHECK(job.raised().empty());
  auto next = next_of(job, 0);
  CHECK(next->command().env.get("PMIX_NAMESPACE") == "nacre-1");
  job.connect(0);
  CHECK(job.service->clients().state_of_task(0) == std::string("connected"));
  CHECK(job.service->clients().connected_tasks() == "0");
}

TEST_CASE(
    "all start again in a namespace of their own, with the map of then; libpmix forgets one only a start later") {
  Served job(2, kAgain, 3);
  job.start();
  for (pmix_rank_t rank : {0, 1}) job.connect(rank);
  REQUIRE(job.service->await_start(2) == 0);
  for (std::size_t task : {0, 1}) ends_to_start_again(job, task, value::WaitStatus::killed(SIGTERM));
  CHECK(job.raised().empty());
  REQUIRE(job.service->start_again() == 0);
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1", "add_job nacre-1.2"});
  REQUIRE(job.server->jobs.size() == 2);
  CHECK(job.server->jobs[1].nodes[1].ranks == job.server->jobs[0].nodes[1].ranks);
  CHECK(job.server->jobs[1].directory == job.server->jobs[0].directory);
  CHECK(job.service->clients().connected_tasks().empty());
  auto next = next_of(job, 1);
  CHECK(next->command().env.get("PMIX_NAMESPACE") == "nacre-1.2");
  // Late messages of the former start have no effect.
  job.connect(1);
  CHECK(job.answers.statuses.back() == PMIX_ERR_NOT_FOUND);
  CHECK(job.service->clients().connected_tasks().empty());
  // No task has connected this time, and a signal has ended one: libpmix must not be asked to forget the namespace.
  REQUIRE(job.service->await_start(3) == 0);
  next->set_starts_again(true);
  next->exited(value::WaitStatus::killed(SIGTERM), {});
  REQUIRE(job.service->task_ended(capi::handle(next.get())) == 0);
  REQUIRE(job.service->start_again() == 0);
  CHECK(job.server->calls.back() == "add_job nacre-1.3");
  CHECK(was_called(job.server->calls, "forget nacre-1.1"));
  CHECK(was_called(job.server->calls, "remove_job nacre-1"));
  REQUIRE(job.service->await_start(4) == 0);
  REQUIRE(job.service->start_again() == 0);
  CHECK_FALSE(was_called(job.server->calls, "remove_job nacre-1.2"));
  REQUIRE(job.service->start_again() == 0);  // although no start was announced
  CHECK(job.server->calls.back() == "add_job nacre-1.4");
  job.service->stop();
  CHECK(job.server->calls.back() == "abandon");
}

TEST_CASE(
    "a fence of the new start has only what is of that start, whatever comes when; one of the former is answered") {
  Served job(1, kAgain, 2);
  job.start();
  job.connect(0);
  Fence before, after, late;
  auto part = [](std::uint64_t start, const char* bytes) {
    return PeerMessage{.kind = PeerMessage::Kind::part, .start = start, .shell = 1, .texts = {"f*", bytes}};
  };
  job.service->peers().fence(all_of("nacre-1"), PMIX_SUCCESS, "a1", 0, before.reply());
  REQUIRE(job.service->await_start(2) == 0);
  said_by_other(job, part(2, "b2"));  // the other shell's new start has begun
  ends_to_start_again(job, 0, value::WaitStatus::killed(SIGTERM));
  job.host.serve([&] { return job.said.size() >= 2; });
  CHECK(before.answers == 0);
  REQUIRE(job.service->start_again() == 0);
  CHECK(before.answers == 1);
  CHECK(before.status == PMIX_ERR_LOST_CONNECTION);
  said_by_other(job, part(1, "b1"));  // the other shell's last message before its new start
  job.service->peers().fence(all_of("nacre-1"), PMIX_SUCCESS, "a1", 0, late.reply());  // read from a closed socket
  CHECK(late.status == PMIX_ERR_LOST_CONNECTION);
  job.service->peers().fence(all_of("nacre-1.2"), PMIX_SUCCESS, "a2", 0, after.reply());
  REQUIRE(job.host.serve([&] { return after.answers > 0; }));
  CHECK(after.status == PMIX_SUCCESS);
  CHECK(after.bytes == "a2b2");
  CHECK(before.answers == 1);
}

TEST_CASE("a server that does not answer any more is left as it is, in words") {
  Served job(1, kAgain);
  job.start();
  REQUIRE(job.service->await_start(2) == 0);
  job.server->errors["answers"] = "never";
  CHECK(job.service->start_again() == -1);
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1", "abandon"});
  CHECK(job.logged("error") ==
        Texts{"libpmix does not answer any more: it may not get over a process that has died "
              "while it connected"});
}

TEST_CASE("a fence without a client that has died does not come to its end where all may start again") {
  bool again = GENERATE(true, false);
  Served job(2, again ? kAgain : Json::object(), 2);
  job.start();
  Fence fence;
  for (pmix_rank_t rank : {0, 1}) job.connect(rank);
  bool is_seen = GENERATE(true, false);
  if (is_seen) job.service->ends().connection_lost(proc_of("nacre-1", 1));
  if (!is_seen && again) ends_to_start_again(job, 1, value::WaitStatus::killed(SIGKILL));
  job.service->peers().fence(all_of("nacre-1"), PMIX_SUCCESS, "a", 0, fence.reply());
  said_by_other(job, {.kind = PeerMessage::Kind::part, .shell = 1, .texts = {"f*", "b"}});
  job.host.serve([&] { return job.said.size() >= (again ? 1 : 2); });
  job.host.serve([&, turns = 0]() mutable { return fence.answers > 0 || ++turns > 3; });
  CHECK(fence.answers == (again ? 0 : 1));
  job.service->stop();
}

TEST_CASE("what processes of a former start ask for late is refused") {
  Served job(1, kAgain);
  job.start();
  pmix_proc_t former = proc_of("nacre-1", 0);
  OperationReply reply{Answers::op, &job.answers};
  REQUIRE(job.service->await_start(2) == 0);
  REQUIRE(job.service->start_again() == 0);
  job.service->peers().publish(former, {}, reply);
  job.service->peers().unpublish(former, {}, {}, reply);
  auto found = [](pmix_status_t status, pmix_pdata_t*, std::size_t, void* data) { Answers::op(status, data); };
  job.service->peers().look_up(former, {"port"}, {}, found, &job.answers);
  CHECK(std::count(job.answers.statuses.begin(), job.answers.statuses.end(), PMIX_ERR_LOST_CONNECTION) == 3);
  SpawnApp app{{"/bin/true"}, {}, "", 1};
  job.service->spawns().spawn(former, {}, {app}, Answers::spawned, &job.answers);
  CHECK(job.answers.statuses.back() == PMIX_ERR_JOB_CANCELED);
}

TEST_CASE("what a task has spawned at the last moment ends with its start, and that is no failure") {
  Served job(1, kAgain);
  job.start();
  job.listen();
  job.connect(0);
  SpawnApp app{{"/bin/sleep", "1000"}, {}, "", 1};
  auto spawn = [&] {
    job.service->spawns().spawn(proc_of("nacre-1", 0), {}, {app}, Answers::spawned, &job.answers);
  };
  spawn();
  CHECK(job.answers.statuses.back() == PMIX_SUCCESS);
  bool is_left = GENERATE(true, false);  // until the next start has begun
  if (is_left) {
    app.argv = {"/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.02; done"};
    spawn();
  }
  REQUIRE(job.service->await_start(2) == 0);
  spawn();
  CHECK(job.answers.statuses.back() == PMIX_ERR_JOB_CANCELED);
  ends_to_start_again(job, 0, value::WaitStatus::killed(SIGTERM));
  auto none_runs = [] { return event::Children::descendants().empty(); };
  if (!is_left) REQUIRE(job.host.serve(none_runs));
  REQUIRE(job.service->start_again() == 0);
  REQUIRE(job.host.serve(none_runs));
  CHECK(job.raised().empty());
  CHECK(job.logged("warn").empty());
  CHECK(job.service->how_to_restart(0) == "alone");
}

TEST_CASE(
    "a spawn that is not answered when the next start begins is cancelled, and its number means nothing there") {
  Served job(1, kAgain, 2);
  flux_plugin_add_handler(
      job.plugin, "pmi.spawn",
      [](flux_plugin_t*, const char*, flux_plugin_arg_t* args, void*) {
        return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:b}", "taken", 1);
      },
      nullptr);
  job.start();
  job.connect(0);
  std::size_t before = job.answers.statuses.size();
  SpawnApp app{{"/bin/true"}, {}, "", 1};
  job.service->spawns().spawn(proc_of("nacre-1", 0), {}, {app}, Answers::spawned, &job.answers);
  CHECK(job.answers.statuses.size() == before);
  auto begin = [&](int start) {
    Json programs = {{{"name", "a"}, {"processes", 2}}};
    job.call(&Spawns::begins, {{"start", start},
                               {"number", 1},
                               {"nspace", job.server->jobs.back().nspace},
                               {"rank", 0},
                               {"task", 0},
                               {"places", {0, 1}},
                               {"programs", programs}});
  };
  begin(1);
  CHECK(job.server->jobs.back().nspace == "nacre-1-spawn-1");
  Fence waits;
  job.service->peers().fence(all_of("nacre-1-spawn-1"), PMIX_SUCCESS, "a", 0, waits.reply());
  CHECK(waits.answers == 0);
  REQUIRE(job.service->await_start(2) == 0);
  REQUIRE(job.service->start_again() == 0);
  CHECK(job.answers.statuses.back() == PMIX_ERR_JOB_CANCELED);
  CHECK(waits.status == PMIX_ERR_JOB_CANCELED);
  begin(2);
  CHECK(job.server->jobs.back().nspace == "nacre-1.2-spawn-1");
  CHECK(job.server->jobs.back().global_offset == 2);
  Json exited{{"start", 1}, {"number", 1}, {"rank", 0}, {"wait_status", SIGKILL}, {"ending", false}};
  job.call(&Spawns::exited, exited);
  CHECK(job.raised().empty());
  exited["start"] = 2;
  job.call(&Spawns::exited, exited);
  CHECK(job.raised().size() == 1);
}

TEST_CASE("PMIx_Abort is the failure of its task: only if that does not start again it ends the job") {
  bool again = GENERATE(true, false);
  Served job(2, kAgain);
  job.start();
  job.connect(1);
  job.abort(1, 7, "cannot go on");
  CHECK(job.answers.statuses.back() == PMIX_SUCCESS);
  CHECK(job.raised().empty());
  again ? ends_to_start_again(job, 1, value::WaitStatus::exited(7)) : job.exit(1, 7);
  CHECK(job.raised() ==
        (again ? Texts() : Texts{"7: rank 1 on fake0 called PMIx_Abort with code 7: cannot go on"}));
}

TEST_CASE("while all are going to start again PMIx_Abort, and how a task ends, are of no consequence") {
  Served job(2, kAgain);
  job.start();
  for (pmix_rank_t rank : {0, 1}) job.connect(rank);
  REQUIRE(job.service->await_start(2) == 0);
  job.abort(0, 7);
  job.exit(0, 7);
  job.die(1, SIGTERM);
  CHECK(job.raised().empty());
}

TEST_CASE("a spare begins with the start that brings it tasks; the map leaves out the node that is lost") {
  Served job(2, kAgain, 3);
  job.host.mutable_job().shell_rank = 2;
  job.host.mutable_job().taskmap = value::Taskmap::of({0, 0, 1, 1});
  REQUIRE(job.service->start() == 0);
  CHECK(job.server->calls.empty());
  CHECK(job.service->clients().connected_tasks().empty());
  job.service->ends().shell_lost(1);
  job.host.mutable_job().taskmap = value::Taskmap::of({0, 0, 2, 2});
  REQUIRE(job.service->await_start(2) == 0);
  REQUIRE(job.service->start_again() == 0);
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1.2"});
  CHECK(job.server->facts->nspace == "shell-nacre-1");
  const JobFacts& map = job.server->jobs[0];
  CHECK(map.this_node == 1);
  REQUIRE(map.nodes.size() == 2);
  CHECK(map.nodes[1].host == "fake2");
  CHECK(map.nodes[1].ranks == std::vector<pmix_rank_t>{2, 3});
  CHECK(job.service->peers().has_ended(2) == false);
}

TEST_CASE(
    "a shell without tasks that takes spawned processes serves each start; a namespace without clients is "
    "forgotten") {
  Served job(1, kAgain, 3);
  job.host.mutable_job().shell_rank = 2;
  job.host.mutable_job().taskmap = value::Taskmap::of({0, 1});
  auto takes_part = [](flux_plugin_t*, const char*, flux_plugin_arg_t* args, void*) {
    return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:b s:i}", "takes_part", 1, "universe_size", 9);
  };
  flux_plugin_add_handler(job.plugin, "pmi.spawning", takes_part, nullptr);
  REQUIRE(job.service->start() == 0);
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1"});
  CHECK(job.server->jobs[0].this_node == JobFacts::kNowhere);
  CHECK(job.service->how_to_restart(1) == "together");
  REQUIRE(job.service->await_start(2) == 0);
  REQUIRE(job.service->start_again() == 0);
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1", "remove_job nacre-1", "add_job nacre-1.2"});
  job.host.mutable_job().taskmap = value::Taskmap::of({0, 2});
  REQUIRE(job.service->await_start(3) == 0);
  REQUIRE(job.service->start_again() == 0);
  CHECK(job.server->jobs[2].here().ranks == std::vector<pmix_rank_t>{1});
  CHECK(job.server->jobs[2].universe == 9);
}

TEST_CASE("a shell that stays without tasks does nothing when all start again, and ends in silence") {
  Served job(1, kAgain, 3);
  job.host.mutable_job().shell_rank = 2;
  job.host.mutable_job().taskmap = value::Taskmap::of({0, 1});
  REQUIRE(job.service->start() == 0);
  REQUIRE(job.service->await_start(2) == 0);
  REQUIRE(job.service->start_again() == 0);
  job.service->tasks_are_over();
  CHECK(job.server->calls.empty());
}
