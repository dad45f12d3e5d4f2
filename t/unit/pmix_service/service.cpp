// SPDX-License-Identifier: Apache-2.0
//
// The service's beginning and end, and small requests.
#include "service.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "served.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::pmix;  // NOLINT

using Texts = std::vector<std::string>;

TEST_CASE("the server is told who it is, and about the job") {
  Served job(2, {{"fault-tolerance", true}}, 3);
  REQUIRE(job.service->start() == 0);
  REQUIRE(job.server->facts);
  CHECK(job.server->facts->nspace == "shell-nacre-1");
  CHECK(job.server->facts->rank == 0);
  CHECK(job.server->facts->directory == job.directory + "/pmix");
  CHECK(job.server->facts->host == "fake0");
  CHECK(job.server->facts->lockless);
  struct stat about {};
  REQUIRE(::stat((job.directory + "/pmix").c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0700);
  REQUIRE(job.server->jobs.size() == 1);
  const JobFacts& facts = job.server->jobs[0];
  CHECK(facts.nspace == "nacre-1");
  CHECK(facts.job_id == "1");
  CHECK(facts.size() == 6);
  CHECK(facts.slots == 6);
  CHECK(facts.this_node == 0);
  REQUIRE(facts.nodes.size() == 3);
  CHECK(facts.nodes[2].host == "fake2");
  CHECK(facts.nodes[2].ranks == std::vector<pmix_rank_t>{4, 5});
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1"});
}

TEST_CASE("the job's processes have a home, as Open MPI 5 needs one: the job's, else that of who runs it") {
  const bool has_one = GENERATE(true, false);
  Served job(1);
  job.host.environment().unset("HOME");
  if (has_one) job.host.environment().set("HOME", "/else/where");
  REQUIRE(job.service->start() == 0);
  const passwd* user = ::getpwuid(::getuid());
  const std::string own = user != nullptr ? user->pw_dir : "/";
  CHECK(job.host.environment().get("HOME") == (has_one ? "/else/where" : own));
}

TEST_CASE("where fault-tolerance is off the server may share locks") {
  for (const Json& option : {Json(nullptr), Json(0), Json(false)}) {
    Served job(1, {{"fault-tolerance", option}});
    REQUIRE(job.service->start() == 0);
    CHECK_FALSE(job.server->facts->lockless);
    CHECK_FALSE(job.service->fault_tolerant());
  }
}

TEST_CASE("a server that does not start is an error that says why, and no request is taken then") {
  Served job(1);
  bool at_start = GENERATE(true, false);
  job.server->errors[at_start ? "start" : "add_job"] = "UNREACHABLE (-25)";
  CHECK(job.service->start() == -1);
  CHECK(job.logged("error") == Texts{"libpmix cannot serve the job: UNREACHABLE (-25) "
                                     "(PMIX_MCA_ptl_base_verbose=10 in the shell's environment "
                                     "shows more)"});
  CHECK_FALSE(job.server->runs());
  CHECK(job.post_connected(0) == PMIX_ERR_UNREACH);
  CHECK(job.answers.statuses.empty());
}

TEST_CASE("without a directory for libpmix's files the service does not start") {
  Served job(1);
  SECTION("none is named") {
    job.host.environment().unset("FLUX_JOB_TMPDIR");
    CHECK(job.service->start() == -1);
    REQUIRE(job.logged("error").size() == 1);
    CHECK(job.logged("error")[0].starts_with("the job has no FLUX_JOB_TMPDIR for libpmix's files"));
  }
  SECTION("it is there already") {
    REQUIRE(::mkdir((job.directory + "/pmix").c_str(), 0700) == 0);
    CHECK(job.service->start() == -1);
    REQUIRE(job.logged("error").size() == 1);
    CHECK(job.logged("error")[0] == job.directory + "/pmix: File exists");
  }
  CHECK(job.server->calls.empty());
}

TEST_CASE("a task finds the server by its environment; if libpmix has none for it, it is not started") {
  Served job(2);
  REQUIRE(job.service->start() == 0);
  job.host.make_tasks();
  task::Task* task = job.host.tasks()[1].get();
  CHECK(job.service->prepare_task(capi::handle(task)) == 0);
  CHECK(task->command().env.get("PMIX_RANK") == "1");
  CHECK(task->command().env.get("PMIX_NAMESPACE") == "nacre-1");
  job.server->errors["environment"] = "no memory";
  CHECK(job.service->prepare_task(capi::handle(job.host.tasks()[0].get())) == -1);
  CHECK(job.logged("error") == Texts{"rank 0: libpmix has no environment for it: no memory"});
}

TEST_CASE("when the tasks are over the server stops, and no request is taken any more") {
  Served job(2);
  job.start();
  for (pmix_rank_t rank : {0, 1}) job.connect(rank), job.finalize(rank);
  for (std::size_t task : {0, 1}) job.exit(task, 0);
  job.service->tasks_are_over();
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1", "remove_job nacre-1", "stop"});
  CHECK(job.post_connected(0) == PMIX_ERR_UNREACH);
  job.service->stop();  // again, as the topic shell.exit has it
  CHECK(job.server->calls.size() == 4);
}

TEST_CASE("a server whose client died is left to itself: its finalization might wait for ever") {
  Served job(2);
  job.start();
  job.connect(0);
  job.die(0, SIGKILL);
  job.service->tasks_are_over();
  CHECK(job.server->calls == Texts{"start", "add_job nacre-1", "abandon"});
}

TEST_CASE("a connection of who is none of the job's is refused") {
  Served job(1);
  job.start();
  job.connect(4);
  job.finalize(4);
  CHECK(job.answers.statuses == std::vector<pmix_status_t>{PMIX_ERR_NOT_FOUND, PMIX_SUCCESS});
}

TEST_CASE("job control: what is no signal, or is for nobody, is refused") {
  Served job(2);
  job.start();
  pmix_proc_t who = proc_of("nacre-1", 0), none = proc_of("nacre-1", 7);
  auto control = [&](const pmix_proc_t& target, const InfoList& directives) {
    InfoReply reply{Answers::info, &job.answers};
    job.service->control(who, {target}, directives, reply);
    return job.answers.statuses.back();
  };
  InfoList signal, wrong, unknown;
  signal.integer(PMIX_JOB_CTRL_SIGNAL, SIGUSR1);
  wrong.integer(PMIX_JOB_CTRL_SIGNAL, 4711);
  unknown.flag(PMIX_JOB_CTRL_RESTART, true);
  CHECK(control(who, signal) == PMIX_SUCCESS);
  CHECK(control(none, signal) == PMIX_ERR_NOT_FOUND);
  CHECK(control(who, wrong) == PMIX_ERR_NOT_SUPPORTED);
  CHECK(control(who, unknown) == PMIX_ERR_NOT_SUPPORTED);
  CHECK(control(who, {}) == PMIX_ERR_BAD_PARAM);
  unknown.integer(PMIX_JOB_CTRL_SIGNAL, SIGUSR1);
  CHECK(control(who, unknown) == PMIX_SUCCESS);  // what is not required is left out
  PMIX_INFO_REQUIRED(&unknown.data()[0]);
  CHECK(control(who, unknown) == PMIX_ERR_NOT_SUPPORTED);
  CHECK(job.raised().empty());
}

TEST_CASE("job control: the end of all tasks is the end of the job, and who has asked for it is named") {
  for (int signum : {SIGKILL, SIGTERM}) {
    for (pmix_rank_t target : {PMIX_RANK_WILDCARD, pmix_rank_t{1}}) {
      Served job(2);
      job.start();
      InfoList how;
      how.flag(signum == SIGKILL ? PMIX_JOB_CTRL_KILL : PMIX_JOB_CTRL_TERMINATE, true);
      job.service->control(proc_of("nacre-1", 0), {proc_of("nacre-1", target)}, how, {Answers::info, &job.answers});
      CHECK(job.answers.statuses == std::vector<pmix_status_t>{PMIX_SUCCESS});
      const std::string what = signum == SIGKILL ? "kill" : "terminate";
      const std::string says = "rank 0 on fake0 called PMIx_Job_control to " + what;
      if (target == 1) {
        CHECK(job.raised().empty());
        CHECK(job.logged("notice") == std::vector<std::string>{says + " rank 1"});
      } else {
        CHECK(job.raised() == std::vector<std::string>{std::to_string(128 + signum) + ": " + says + " the job"});
      }
      // Without targets the caller's job is meant; it ends once.
      job.service->control(proc_of("nacre-1", 1), {}, how, {Answers::info, &job.answers});
      CHECK(job.raised().size() == 1);
    }
  }
}

TEST_CASE("log: text is logged with the rank, what is none is refused, and a part is told as such") {
  Served job(2);
  job.start();
  pmix_proc_t who = proc_of("nacre-1", 1);
  auto log = [&](const InfoList& data) {
    job.service->log(who, data, {Answers::op, &job.answers});
    return job.answers.statuses.back();
  };
  InfoList text, mail, both;
  text.string(PMIX_LOG_STDERR, "all is well\n\n");
  mail.string(PMIX_LOG_EMAIL, "x");
  both.string(PMIX_LOG_STDOUT, "this").string(PMIX_LOG_EMAIL, "x");
  CHECK(log(text) == PMIX_SUCCESS);
  CHECK(log(mail) == PMIX_ERR_NOT_SUPPORTED);
  CHECK(log(both) == PMIX_ERR_PARTIAL_SUCCESS);
  CHECK(job.logged("notice") == Texts{"rank 1: all is well", "rank 1: this"});
}
