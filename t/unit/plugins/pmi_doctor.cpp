// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/doctor.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "catch.hpp"

#include "pmi_practice.hpp"

using namespace nacre;
using plugins::PmiDoctor;
using plugins::PmiOptions;
using plugins::Practice;
using plugins::reporting_after;
using value::WaitStatus;

namespace {

using Texts = std::vector<std::string>;

struct Alone : kit::FakeHost, Practice {
  explicit Alone(std::uint32_t tasks, PmiOptions pmi_options = {}, bool with_pmi = true)
      : kit::FakeHost(tasks), Practice(*static_cast<kit::FakeHost*>(this), pmi_options, with_pmi) {
    begin();
  }
};

}  // namespace

// ---- one shell -----------------------------------------------------------------------------

TEST_CASE("a roll call says of each task where it is, and equal ones in one line") {
  Alone job(8);
  for (std::uint32_t client : {0, 1, 2, 4, 5}) job.join(client);
  for (std::uint32_t client : {0, 2}) job.enter(client);
  job.say(1, "cmd=get_maxes");
  job.say(4, "cmd=finalize");
  job.server->closed(5);
  REQUIRE(job.end_task(6, WaitStatus::exited(3)));
  REQUIRE(job.end_task(7, WaitStatus::killed(SIGSEGV)));
  job.signal();
  CHECK(job.said() == Texts{"roll call of 8 tasks (SIGUSR2):", "  0,2: in PMI barrier 1",
                            "  1: after PMI get_maxes: gone", "  3: before PMI init: gone",
                            "  4: after PMI finalize: gone", "  5: without its PMI connection: gone",
                            "  6: ended: exited with code 3", "  7: ended: killed by SIGSEGV"});
}

TEST_CASE("a job that does not use PMI, or is not offered it: what its processes do") {
  bool with_pmi = GENERATE(true, false);
  Alone job(3, {}, with_pmi);
  job.signal();
  CHECK(job.said() == Texts{"roll call of 3 tasks (SIGUSR2):", "  0-2: gone"});
}

TEST_CASE("who asks twice is answered twice, each time with how it is then") {
  Alone job(2);
  job.join(0);
  job.join(1);
  job.enter(0);
  job.signal();
  CHECK(job.said() ==
        Texts{"roll call of 2 tasks (SIGUSR2):", "  0: in PMI barrier 1", "  1: after PMI init: gone"});
  job.enter(1);
  job.server->fenced(pmi::Entries());
  job.enter(1);
  job.signal();
  CHECK(job.said() ==
        Texts{"roll call of 2 tasks (SIGUSR2):", "  0: after PMI barrier_in: gone", "  1: in PMI barrier 2"});
}

TEST_CASE("a task that has not been started, or whose shell has no tasks left, is in a roll call too") {
  kit::FakeHost host(2);
  host.make_tasks();
  plugin::Plugin plugin("pmi");
  PmiOptions options;
  PmiDoctor doctor(host, plugin, options, nullptr);
  REQUIRE(doctor.watch());
  host.tasks()[0]->exited(WaitStatus::exited(0), {});
  doctor.tasks_ended();
  bool seen = false;
  auto watcher = event::SignalWatcher::create(host.loop(), SIGUSR2, [&](int) { seen = true; }).value();
  ::raise(SIGUSR2);
  REQUIRE(host.serve([&] { return seen; }));
  CHECK(host.logged == Texts{"notice pmi: roll call of 2 tasks (SIGUSR2):",
                             "notice pmi:   0: ended: exited with code 0", "notice pmi:   1: not started"});
}

TEST_CASE("a barrier that lasts is reported, again and again while it is open, and not once it is over") {
  Alone job(2, reporting_after(0.05));
  job.join(0);
  job.join(1);
  job.enter(0);
  job.pass(0.12);
  CHECK(job.said().empty());  // no barrier was reported
  job.doctor->barrier(true, 0);
  REQUIRE(job.serve([&] { return job.logged.size() >= 6; }));
  Texts said = job.said();
  Texts report{"roll call of 2 tasks (a barrier has lasted 50ms):", "  0: in PMI barrier 1",
               "  1: after PMI init: gone"};
  REQUIRE(said.size() >= 6);
  CHECK(Texts(said.begin(), said.begin() + 3) == report);
  CHECK(Texts(said.begin() + 3, said.begin() + 6) == report);
  job.doctor->barrier(false, 0);
  job.said();
  job.pass(0.12);
  CHECK(job.said().empty());
  CHECK_FALSE(job.next_timer() == event::Seconds(0.05));
}

TEST_CASE("a signal while a barrier is open asks at once") {
  Alone job(2, reporting_after(3600));
  job.join(0);
  job.join(1);
  job.enter(1);
  job.doctor->barrier(true, 0);
  job.signal();
  CHECK(job.said() ==
        Texts{"roll call of 2 tasks (SIGUSR2):", "  0: after PMI init: gone", "  1: in PMI barrier 1"});
}

TEST_CASE("pmi.hang-report=off: no barrier is reported") {
  PmiOptions options;
  options.hang_report = value::Duration::infinite();
  Alone job(1, options);
  job.doctor->barrier(true, 0);
  job.pass(0.1);
  CHECK(job.said().empty());
}

TEST_CASE("when the tasks have ended a barrier is reported no more") {
  Alone job(1, reporting_after(0.05));
  job.doctor->barrier(true, 0);
  job.doctor->tasks_ended();
  job.doctor->barrier(true, 1);
  job.pass(0.12);
  CHECK(job.said().empty());
}
