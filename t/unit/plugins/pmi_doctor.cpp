// SPDX-License-Identifier: Apache-2.0
//
// A PmiDoctor, and the tasks that it looks at.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_host.hpp"
#include "fake_job.hpp"
#include "folder.hpp"
#include "plugins/pmi/doctor.hpp"
#include "pmi/key_exchange.hpp"

using namespace nacre;
using plugins::PmiDoctor;
using plugins::PmiOptions;
using value::WaitStatus;

namespace {

pmi::ClientGroup group_of(kit::FakeHost& host) {
  pmi::ClientGroup group;
  group.kvsname = "kvs";
  group.size = static_cast<std::uint32_t>(host.job().tasks());
  for (const auto& task : host.tasks()) group.ranks.push_back(task->rank());
  return group;
}

PmiOptions reporting_after(double seconds) {
  PmiOptions options;
  options.hang_report = value::Duration::of_seconds(seconds);
  return options;
}

// The doctor of one shell, whose tasks run and are clients of a server. They have no processes: what they do is
// "gone".
struct Practice {
  explicit Practice(kit::FakeHost& of_host, PmiOptions pmi_options = {}, bool with_pmi = true,
                    const std::map<std::size_t, pid_t>& pids = {})
      : host(of_host), options(pmi_options) {
    host.start_tasks(pids);
    server.emplace(group_of(host), names);
    doctor.emplace(host, plugin, options, with_pmi ? &*server : nullptr);
    REQUIRE(doctor->watch());
  }
  // Goes on as the shell does once all have got this far.
  void begin() {
    doctor->all_listen();
    REQUIRE(doctor->tasks_started());
  }

  void say(std::uint32_t client, std::string_view line) { server->receive(client, fmt::format("{}\n", line)); }
  void join(std::uint32_t client) { say(client, "cmd=init pmi_version=1 pmi_subversion=1"); }
  void enter(std::uint32_t client) { say(client, "cmd=barrier_in"); }

  // What was said at this level since the last call.
  std::vector<std::string> said(std::string_view level = "notice") {
    std::vector<std::string> out;
    std::string start = fmt::format("{} pmi: ", level);
    for (const std::string& text : host.logged) {
      if (text.starts_with(start)) out.push_back(text.substr(start.size()));
    }
    host.logged.clear();
    return out;
  }
  // Sends SIGUSR2 to this process, and lets the shell handle it.
  void signal() {
    bool seen = false;
    auto watcher = event::SignalWatcher::create(host.loop(), SIGUSR2, [&](int) { seen = true; }).value();
    ::raise(SIGUSR2);
    REQUIRE(host.serve([&] { return seen; }));
  }
  // Lets this much time go by on its loop.
  void pass(double seconds) {
    bool over = false;
    auto timer = event::Timer::create(host.loop(), [&] { over = true; }).value();
    timer.start(event::Seconds(seconds));
    REQUIRE(host.serve([&] { return over; }));
  }

  kit::FakeHost& host;
  plugin::Plugin plugin{"pmi"};
  PmiOptions options;
  pmi::Names names;
  std::optional<pmi::Server> server;
  std::optional<PmiDoctor> doctor;
};

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

// Which libraries of MPI a PmiDoctor sees in tasks, and its messages about them.

namespace {

// A file of this name that this process has mapped, as if it were linked with it.
struct MappedLibrary {
  explicit MappedLibrary(const std::string& name) {
    int fd = ::open(folder.path(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    REQUIRE(::ftruncate(fd, kSize) == 0);
    mapped = ::mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    REQUIRE(mapped != MAP_FAILED);
  }
  ~MappedLibrary() { ::munmap(mapped, kSize); }
  static constexpr std::size_t kSize = 4096;
  kit::TemporaryFolder folder;
  void* mapped = nullptr;
};

}  // namespace

TEST_CASE("a library of MPI in a task, and no init: each task was a job of its own") {
  struct Case {
    std::string library;
    std::string remedy;
  };
  for (const Case& each : {Case{"libmpich.so.12", "MPICH starts by PMI-1: -o pmi=simple, which is the default"},
                           Case{"libopen-rte.so.40", "Open MPI starts by PMIx: -o pmi=pmix"},
                           Case{"libmpi_unknown.so.1", "see nacre-pmi(7) for what each MPI needs"}}) {
    MappedLibrary library(each.library);
    for (std::uint32_t tasks : {1, 2}) {
      kit::FakeHost host(tasks);
      Practice job(host, {}, true, {{0, ::getpid()}});
      job.begin();
      job.pass(0.15);
      job.doctor->tasks_ended();
      Texts said{
          fmt::format("rank 0 has {} and has not called PMI init: each task is a job of its own; {} (see "
                      "more with -o pmi.explain)",
                      each.library, each.remedy)};
      CHECK(job.said("warn") == (tasks == 1 ? Texts() : said));
    }
  }
}

TEST_CASE("nothing is said of libraries where init was called, or PMIx is offered") {
  MappedLibrary library("libmpich.so.12");
  bool with_init = GENERATE(true, false);
  PmiOptions options;
  options.pmix = !with_init;
  kit::FakeHost host(2);
  Practice job(host, options, true, {{0, ::getpid()}});
  job.begin();
  if (with_init) job.join(1);
  job.pass(0.15);
  job.doctor->tasks_ended();
  CHECK(job.said("warn").empty());
}

TEST_CASE("pmi.explain: who has spoken which protocol, and which libraries were seen, when the tasks have ended") {
  MappedLibrary library("libmpich.so.12");
  PmiOptions options;
  options.explain = true;
  kit::FakeHost host(4);
  Practice job(host, options, true, {{1, ::getpid()}});
  job.begin();
  job.join(0);
  job.say(0, "cmd=finalize");
  job.join(1);
  job.say(2, "cmd=init pmi_version=3 pmi_subversion=0");
  job.pass(0.15);
  job.doctor->tasks_ended();
  CHECK(job.said() == Texts{"0: PMI-1, 0 barriers, finalized; no MPI library seen",
                            "1: PMI-1, 0 barriers, not finalized; libmpich.so.12",
                            "2: asked for PMI 3.0, which is not offered; no MPI library seen",
                            "3: no PMI init; no MPI library seen"});
}

// Roll calls in a job of several shells.

namespace {

// Several shells with a doctor each, on two tasks each.
struct Clinic {
  explicit Clinic(std::uint32_t nodes, PmiOptions options = {}) : job(nodes, 2) {
    for (std::uint32_t shell = 0; shell < nodes; ++shell) {
      shells.push_back(std::make_unique<Practice>(job[shell], options));
    }
  }
  void begin() {
    for (auto& shell : shells) shell->begin();
  }
  Practice& operator[](std::uint32_t shell) { return *shells[shell]; }

  kit::FakeJob job;
  std::vector<std::unique_ptr<Practice>> shells;
};

}  // namespace

TEST_CASE("any shell may be asked; all answer, and shell 0 says it, in the order of the ranks") {
  Clinic clinic(3);
  clinic.begin();
  clinic[0].join(1);
  clinic[1].join(0);
  clinic[1].enter(0);
  REQUIRE(clinic.job[2].end_task(0, WaitStatus::exited(0)));
  std::uint32_t asked = GENERATE(0, 1, 2);
  clinic[asked].doctor->asked();
  CHECK(clinic[0].said().empty());
  clinic.job.deliver();
  CHECK(clinic[0].said() == Texts{"roll call of 6 tasks (SIGUSR2):", "  0,3: before PMI init: gone",
                                  "  1: after PMI init: gone", "  2: in PMI barrier 1",
                                  "  4: ended: exited with code 0", "  5: gone"});
  CHECK(clinic[1].said().empty());
  CHECK(clinic[2].said().empty());
  CHECK(clinic.job.unfinished().empty());
}

TEST_CASE("several that are asked, or are asked several times: a roll call for each") {
  Clinic clinic(2);
  clinic.begin();
  clinic[0].doctor->asked();
  clinic[1].doctor->asked();
  clinic[1].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said().size() == 3 * 2);
  clinic[0].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said() == Texts{"roll call of 4 tasks (SIGUSR2):", "  0-3: gone"});
  CHECK(clinic.job.unfinished().empty());
}

TEST_CASE("a shell whose tasks have ended may be asked, and gives its part") {
  Clinic clinic(2);
  clinic.begin();
  for (std::size_t task : {0, 1}) REQUIRE(clinic.job[0].end_task(task, WaitStatus::exited(0)));
  clinic[0].doctor->tasks_ended();
  std::uint32_t asked = GENERATE(0, 1);
  clinic[asked].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said() ==
        Texts{"roll call of 4 tasks (SIGUSR2):", "  0-1: ended: exited with code 0", "  2-3: gone"});
}

TEST_CASE("who asks before all shells listen is answered when they do, once") {
  kit::FakeJob job(2, 2);
  Practice first(job[0]);
  first.doctor->asked();
  first.doctor->asked();
  job.deliver();
  CHECK(job.unfinished().empty());
  Practice second(job[1]);  // later than the other
  second.begin();
  first.begin();
  job.deliver();
  CHECK(first.said() == Texts{"roll call of 4 tasks (SIGUSR2):", "  0-3: gone"});
  CHECK(job.unfinished().empty());
}

TEST_CASE("a roll call that not all answer is said when they are lost, of those that are left") {
  Clinic clinic(3);
  clinic.begin();
  clinic[0].doctor->asked();
  clinic.job.stop(2);
  clinic.job.deliver();
  CHECK(clinic[0].said().empty());
  CHECK(clinic.job.unfinished().size() == 1);
  clinic.job.lose(2);
  CHECK(clinic[0].said() == Texts{"roll call of 4 tasks (SIGUSR2):", "  0-3: gone"});
}

TEST_CASE("nobody else answers: all others are lost") {
  Clinic clinic(3);
  clinic.begin();
  clinic.job.lose(1);
  clinic.job.lose(2);
  clinic[0].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said() == Texts{"roll call of 2 tasks (SIGUSR2):", "  0-1: gone"});
}

TEST_CASE("a shell that is cut off says nothing") {
  Clinic clinic(2);
  clinic.begin();
  clinic[0].doctor->asked();
  clinic.job.stop(1);
  clinic.job.deliver();
  clinic.job.cut_off(0);
  CHECK(clinic[0].said().empty());
}

TEST_CASE("a barrier that several nodes wait in is reported once each time") {
  Clinic clinic(3, reporting_after(0.05));
  clinic.begin();
  for (std::uint32_t shell : {0, 2}) {
    clinic[shell].join(0);
    clinic[shell].enter(0);
    clinic[shell].doctor->barrier(true, 4);
  }
  auto report = [&] {
    for (std::uint32_t shell : {0, 2}) {
      std::size_t before = clinic.job.under_way();
      REQUIRE(clinic.job[shell].serve([&] { return clinic.job.under_way() > before; }));
    }
    clinic.job.deliver();
    return clinic[0].said();
  };
  Texts said = report();
  CHECK(said == Texts{"roll call of 6 tasks (a barrier has lasted 50ms):", "  0,4: in PMI barrier 1",
                      "  1,5: before PMI init: gone", "  2-3: gone"});
  // The next barrier is reported again, but not a number that was reported before.
  for (std::uint32_t shell : {0, 2}) clinic[shell].doctor->barrier(false, 4);
  for (std::uint32_t shell : {0, 2}) clinic[shell].doctor->barrier(true, 5);
  CHECK(report().size() == 4);
}

TEST_CASE("announcements that are no roll call, or of others, are passed over") {
  Clinic clinic(2);
  clinic.begin();
  for (const std::string& bytes :
       {std::string("?"), std::string(), pmi::encode_entries({}), pmi::encode_entries({{"a", "b"}, {"c", "d"}})}) {
    REQUIRE(clinic.job[1].announce("pmi.roll-call", bytes));
  }
  REQUIRE(clinic.job[1].announce("pmi.lost", pmi::encode_entries({{"1.1", "SIGUSR2"}})));
  clinic.job.deliver();
  CHECK(clinic[0].said().empty());
  CHECK(clinic.job.unfinished().empty());
}
