// SPDX-License-Identifier: Apache-2.0
//
// The plugin control on a FakeHost. Its clients are in another process, as they wait.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/client.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"
#include "record/places.hpp"
#include "variable.hpp"

using namespace nacre;  // NOLINT
using kit::FakeHost;
using kit::TemporaryFolder;

namespace {

struct World {
  explicit World(const std::string& option = "control") : jobs("NACRE_JOBS_DIR", folder.path("jobs").c_str()) {
    REQUIRE(host.options().set_from_argument(option));
    host.make_tasks();
    host.stack().push(plugins::make_control(host));
  }
  ~World() {  // no later test finds children that are not its own
    while (::waitpid(-1, nullptr, 0) > 0) continue;
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  Result<int> init() { return host.call("shell.init"); }
  void start() {
    REQUIRE(init().value() == 1);
    REQUIRE(host.call("shell.start").value() == 0);
    host.events().add({{"name", "shell.start"}, {"timestamp", 1.0}, {"context", Json::object()}});
  }
  // Returns the process of task 2, which sleeps; its end is the test's.
  pid_t start_one() {
    REQUIRE(init().value() == 1);
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    host.start_tasks({{2, child}});
    host.events().add({{"name", "shell.start"}, {"timestamp", 1.0}, {"context", Json::object()}});
    return child;
  }
  // Waits until it is listed.
  record::JobEntry listed() {
    std::optional<record::JobEntry> out;
    REQUIRE(host.serve([&] { return (out = entry()).has_value(); }));
    return *out;
  }
  std::optional<record::JobEntry> entry() const {
    auto list = record::JobList::read({folder.path("jobs")}, record::own_witness(), 1e9);
    return list.jobs.empty() ? std::nullopt : std::optional(list.jobs[0].entry);
  }
  // Runs `act` in another process, with a link to the leader. Its result comes through the pipe: the host reaps all
  // children.
  static UniqueFd start_client(const std::string& address, const std::function<int(control::Client&)>& act) {
    Pipe result = make_pipe(O_CLOEXEC | O_NONBLOCK).value();
    if (::fork() == 0) {
      auto client = control::Client::dial(address, "1");
      auto code = static_cast<char>(client ? act(*client) : 99);
      ::_exit(::write(result.write.get(), &code, 1) == 1 ? 0 : 1);
    }
    return std::move(result.read);
  }
  // Serves until the other process has ended. 98: it ended without a result.
  int result_of(const UniqueFd& result) {
    char code = 98;
    REQUIRE(host.serve([&] { return ::read(result.get(), &code, 1) >= 0; }));
    return code;
  }
  int asked(const std::function<int(control::Client&)>& act) {
    return result_of(start_client(listed().address, act));
  }
  void tasks_exited(const char* ranks, const char* record) {
    REQUIRE(host.report_ends(*value::Idset::parse(ranks), *exits::Record::parse(record)).value() == 1);
  }
  void end(int code) { host.ended({{"exit", {{"code", code}, {"by", "x"}}}, {"tasks", {{"x0", "0-3"}}}}); }

  TemporaryFolder folder;
  kit::Variable jobs;
  FakeHost host{4};
};

}  // namespace

TEST_CASE("control: a job is listed a moment after its tasks have started, and its end replaces that",
          "[control]") {
  World world;
  REQUIRE(world.init().value() == 1);
  CHECK_FALSE(world.entry());
  world.host.events().add({{"name", "shell.start"}, {"timestamp", 1.0}, {"context", Json::object()}});
  record::JobEntry entry = world.listed();
  CHECK(entry.tasks == 4);
  CHECK(entry.shells == 1);
  CHECK(entry.pid == ::getpid());
  CHECK(entry.id == world.host.job().id);
  CHECK_FALSE(entry.ended());
  world.end(3);
  REQUIRE(world.entry());
  REQUIRE(world.entry()->ended());
  CHECK(world.entry()->end->code == 3);
  CHECK(world.entry()->end->exits == Json{{{"record", "x0"}, {"count", 4}, {"ranks", "0-3"}}});
}

TEST_CASE("control: a job that is over before it is listed leaves its end", "[control]") {
  World world;
  REQUIRE(world.init().value() == 1);
  world.end(0);
  REQUIRE(world.entry());
  CHECK(world.entry()->ended());
}

TEST_CASE("control: a leader that ends opens no entry of another job", "[control]") {
  World world;
  std::string left;
  event::Children::Guarding guarding;
  guarding.pruning = [&](const std::string& path) { left = path; };
  world.host.children().set_guard(std::move(guarding));
  const std::string folder = world.folder.path("jobs");
  auto directory = record::EntryDirectory::make(folder).value();
  for (std::uint64_t id = 1; id <= 100; ++id)
    REQUIRE(!world.folder.file(fmt::format("jobs/{}.json", value::JobId(id).f58_plain()), "{}").empty());
  // One job in 32 removes entries that are too old.
  world.host.mutable_job().id = value::JobId(32'000'000 - static_cast<std::uint64_t>(::getpid()));
  REQUIRE(world.init().value() == 1);
  UniqueFd reads(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  REQUIRE(::inotify_add_watch(reads.get(), folder.c_str(), IN_ACCESS) >= 0);
  world.end(0);
  CHECK(left == folder);
  std::array<char, 4096> events;
  while (::read(reads.get(), events.data(), events.size()) > 0)
    // whether the directory's names were read
    CHECK((reinterpret_cast<const inotify_event*>(events.data())->mask & IN_ISDIR) != 0);
  CHECK(directory.names().size() == 101);
}

TEST_CASE("control=off: nothing", "[control]") {
  World world("control=off");
  world.start();
  world.end(0);
  CHECK(world.host.run_loop());
  CHECK_FALSE(world.entry());
}

TEST_CASE("control: what is neither on nor off is an error", "[control]") {
  World world("control=sometimes");
  auto called = world.init();
  bool failed = !called || *called != 0;
  CHECK(failed);
}

TEST_CASE("control: status, exits and signals", "[control]") {
  World world;
  world.start();
  world.tasks_exited("1", "x7");
  CHECK(world.asked([](control::Client& client) {
    auto status = client.ask("status");
    if (!status || (*status)["running"] != 3 || (*status)["state"] != "running") return 1;
    if ((*status)["hosts"] != "fake0") return 9;
    auto exits = client.ask("exits");
    if (!exits || (*exits)["running"] != "0,2-3" || (*exits)["exits"][0]["record"] != "x7") return 2;
    auto all = client.ask("signal", {{"signal", SIGUSR1}});
    if (!all || (*all)["sent"] != "0,2-3") return 3;
    auto some = client.ask("signal", {{"signal", SIGUSR2}, {"ranks", "0-2"}});
    if (!some || (*some)["sent"] != "0,2") return 4;
    auto gone = client.ask("signal", {{"signal", SIGUSR2}, {"ranks", "1"}});
    if (gone || gone.error().code != ESRCH) return 5;
    auto beyond = client.ask("signal", {{"signal", SIGUSR2}, {"ranks", "4"}});
    if (beyond || beyond.error().message != "no rank 4: the job has ranks 0-3") return 6;
    for (const Json& bad :
         {Json{{"signal", 0}}, Json{{"signal", 65}}, Json::object(), Json{{"signal", 1}, {"ranks", 3}}}) {
      if (client.ask("signal", bad)) return 7;
    }
    auto unknown = client.ask("fly");
    return !unknown && unknown.error().code == ENOSYS ? 0 : 8;
  }) == 0);
  CHECK(world.host.job_signals == std::vector<std::pair<int, std::string>>{{SIGUSR1, "all"}, {SIGUSR2, "0,2"}});
}

TEST_CASE("control: cancel ends the job with 143, once", "[control]") {
  World world;
  world.start();
  CHECK(world.asked([](control::Client& client) { return client.ask("cancel") ? 0 : 1; }) == 0);
  REQUIRE(world.host.exceptions.size() == 1);
  CHECK(world.host.exceptions[0].type == "cancel");
  CHECK(world.host.exceptions[0].severity == 0);
  CHECK(world.host.exceptions[0].status->job_code() == 143);
}

TEST_CASE("control: ps has the processes of tasks that run", "[control]") {
  World world;
  const pid_t child = world.start_one();
  CHECK(world.asked([child](control::Client& client) {
    auto answer = client.ask("ps");
    if (!answer || !(*answer)["late"].empty()) return 1;
    for (const Json& each : (*answer)["tasks"]) {
      if (each.at("pid") == child)
        return each.at("rank") == 2 && each.at("host") == "fake0" && each.at("rss") > 0 ? 0 : 2;
    }
    return 3;
  }) == 0);
  ::kill(child, SIGKILL);
}

TEST_CASE("control: ps has what tasks have spawned, as the topic pmi.processes tells it", "[control]") {
  World world;
  auto spawns = std::make_unique<plugin::Plugin>("spawns");
  spawns->on("pmi.processes", [](plugin::Call& call) {
    // A process that has ended meanwhile, and this process.
    call.out["processes"] = {{{"spawn", 3}, {"rank", 0}, {"task", 1}, {"pid", INT32_MAX}},
                             {{"spawn", 3}, {"rank", 1}, {"task", 1}, {"pid", ::getpid()}}};
    return Result<void>();
  });
  world.host.stack().push(std::move(spawns));
  world.start();
  CHECK(world.asked([](control::Client& client) {
    auto answer = client.ask("ps");
    if (!answer || (*answer)["spawned"].size() != 1) return 1;
    const Json& row = (*answer)["spawned"][0];
    if (row.at("spawn") != 3 || row.at("rank") != 1 || row.at("task") != 1 || row.contains("try")) return 2;
    return row.at("host") == "fake0" && row.at("shell") == 0 && row.at("rss") > 0 ? 0 : 3;
  }) == 0);
}

TEST_CASE("control: plan has where the tasks that run are, and why", "[control]") {
  World world;
  const pid_t child = world.start_one();
  auto plan = [&](const std::function<bool(const Json&)>& is_right) {
    return world.asked([&](control::Client& client) {
      auto answer = client.ask("plan");
      if (!answer || !(*answer)["late"].empty()) return 1;
      for (const Json& each : (*answer)["tasks"]) {
        if (each.at("pid") == child)
          return each.at("rank") == 2 && each.at("host") == "fake0" &&
                         !each.at("cpus_now").get<std::string>().empty() && is_right(each)
                     ? 0
                     : 2;
      }
      return 3;
    });
  };
  CHECK(plan([](const Json& task) {
          return task.at("cpus") == task.at("cpus_now") &&
                 task.at("why").at("cpus") ==
                     "ps --plan: no plugin answers to affinity.plan, as the builtin plugin cpu-affinity does";
        }) == 0);
  struct Planner final : plugin::Plugin {
    explicit Planner(std::size_t tasks) : Plugin("planner") {
      on("affinity.plan", [tasks](plugin::Call& call) {
        Json task{{"cpus", "4-5"},
                  {"memory", "1"},
                  {"gpus", Json::array()},
                  {"nics", Json::array({"eth0"})},
                  {"why", {{"cpus", "because"}, {"memory", "near"}, {"gpus", ""}, {"nics", "there"}}}};
        call.out = {{"tasks", std::vector<Json>(tasks, task)}, {"unused", "7"}, {"dry-run", true}};
        return Result<void>();
      });
    }
  };
  world.host.stack().push(std::make_unique<Planner>(world.host.tasks().size()));
  CHECK(plan([](const Json& task) {
          return task.at("cpus") == "4-5" && task.at("memory") == "1" && task.at("gpus") == "" &&
                 task.at("nics") == "eth0" && task.at("unset") == "dry-run" &&
                 task.at("why").at("cpus") == "because; cpus 7 of the job have no task" &&
                 task.at("why").at("nics") == "there";
        }) == 0);
  ::kill(child, SIGKILL);
}

TEST_CASE("control: the report is what exit-report has", "[control]") {
  World world;
  world.start();
  CHECK(world.asked([](control::Client& client) {
    auto answer = client.ask("report");
    return answer && (*answer)["report"].is_null() ? 0 : 1;
  }) == 0);
  struct Reports final : plugin::Plugin {
    Reports() : Plugin("reports") {
      on("job.report", [](plugin::Call& call) {
        call.out = {{"version", 1}};
        return Result<void>();
      });
    }
  };
  world.host.stack().push(std::make_unique<Reports>());
  CHECK(world.asked([](control::Client& client) {
    auto answer = client.ask("report");
    return answer && (*answer)["report"] == Json{{"version", 1}} ? 0 : 1;
  }) == 0);
  world.end(1);
  CHECK(world.entry()->end->report == Json{{"version", 1}});
}

TEST_CASE("control: those who are connected are told the end", "[control]") {
  World world;
  world.start();
  std::string ready = world.folder.path("ready");
  UniqueFd result = World::start_client(world.listed().address, [&](control::Client& client) {
    if (!client.ask("status") || ::mkdir(ready.c_str(), 0700) < 0) return 1;
    auto event = client.next_event();
    return event && *event && (*event)->name == "end" && (*event)->context["code"] == 5 ? 0 : 2;
  });
  REQUIRE(world.host.serve([&] { return ::access(ready.c_str(), F_OK) == 0; }));
  world.end(5);
  CHECK(world.host.holds["control"] == 1);
  REQUIRE(world.host.serve([&] { return world.host.holds["control"] == 0; }));
  CHECK(world.result_of(result) == 0);
}
