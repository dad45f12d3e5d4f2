// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/meter.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/file.hpp"
#include "base/text.hpp"
#include "fake_host.hpp"
#include "fake_node.hpp"
#include "folder.hpp"
#include "job_of_nodes.hpp"
#include "plugins/usage/usage.hpp"
#include "quiet_port.hpp"
#include "task/cgroups.hpp"
#include "usage/table.hpp"
#include "variable.hpp"

using namespace nacre;
using plugins::TaskCgroups;

namespace {

// The shell 100 in a cgroup that is a folder: the kernel makes no files in those below.
struct FakeCgroup : kit::NodeFiles {
  FakeCgroup() {
    put("proc/100/cgroup", "0::/job\n");
    put("proc/100/mountinfo", "35 30 0:30 / /cg rw - cgroup2 cgroup2 rw\n");
    put("cg/job/cgroup.procs", "100\n");
  }
  [[nodiscard]] Result<std::unique_ptr<TaskCgroups>> make() const {
    return TaskCgroups::make(100, "f1-0", "memory", path());
  }
};

// A cgroup of the kernel's own for a test, with a process in it that waits; none: this user may not make one.
class RealCgroup {
 public:
  explicit RealCgroup(const char* controller) {
    auto cgroups = task::Cgroups::of_process(::getpid());
    auto own = cgroups ? cgroups->unified_directory() : std::nullopt;
    if (!own) return;
    auto controllers = read_file(*own + "/cgroup.subtree_control");
    std::string before = controllers ? *controllers : "";
    if (before.find(controller) == std::string::npos) {
      std::ofstream(*own + "/cgroup.subtree_control") << "+" << controller << std::flush;
      gives_ = std::string("-") + controller;
      control_ = *own + "/cgroup.subtree_control";
    }
    path_ = *own + "/nacre-unit-" + std::to_string(::getpid());
    if (::mkdir(path_.c_str(), 0755) < 0) return;
    child = add();
    is_there = text("cgroup.procs") == std::to_string(child) + "\n" &&
               text("cgroup.controllers").find(controller) != std::string::npos;
  }
  ~RealCgroup() {
    for (pid_t each : children_) {
      ::kill(each, SIGKILL);
      ::waitpid(each, nullptr, 0);
    }
    ::rmdir(path_.c_str());
    if (!gives_.empty()) std::ofstream(control_) << gives_ << std::flush;
  }
  RealCgroup(const RealCgroup&) = delete;
  RealCgroup& operator=(const RealCgroup&) = delete;
  // Starts another process in the cgroup.
  pid_t add() {
    pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    children_.push_back(pid);
    std::ofstream(path_ + "/cgroup.procs") << pid << std::flush;
    return pid;
  }
  [[nodiscard]] std::string text(const std::string& file) const {
    return read_file(path_ + "/" + file).value_or("?");
  }

  bool is_there = false;
  pid_t child = 0;

 private:
  std::string path_, gives_, control_;
  std::vector<pid_t> children_;
};

}  // namespace

TEST_CASE("a shell in no cgroup of version 2 cannot have cgroups for its tasks") {
  FakeCgroup node;
  node.put("proc/100/mountinfo", "31 20 0:31 / /cg rw - cgroup cgroup rw,memory\n");
  auto made = node.make();
  REQUIRE_FALSE(made);
  CHECK(made.error().message ==
        "cgroup=task: the shell is in no cgroup of version 2 that is mounted here: mount cgroup2, as systemd does, "
        "or "
        "leave the option out");
}

TEST_CASE("a cgroup that is not delegated is named, with the remedy") {
  FakeCgroup node;
  node.remove("cg/job/cgroup.procs");
  auto made = node.make();
  REQUIRE_FALSE(made);
  CHECK(made.error().message ==
        "cgroup=task: " + node.path() + "/cg/job: No such file or directory: " + node.path() +
            "/cg/job is not delegated to user " + std::to_string(::getuid()) +
            ": start the job in a cgroup that is, as by systemd-run --user --scope -p Delegate=yes, or leave out "
            "cgroup=task");
}

TEST_CASE("what a task's cgroup tells, and that nothing of it is left") {
  FakeCgroup node;
  auto made = node.make();
  REQUIRE(made);
  CHECK((*made)->without() == node.path() + "/cg/job has no controller memory");
  CHECK_FALSE((*made)->take(3, 1));
  std::string task = "cg/job/nacre-f1-0/task-3.2";
  node.put(task + "/cpu.stat", "usage_usec 3500000\nuser_usec 3000000\nsystem_usec 500000\n");
  auto plain = (*made)->take(3, 2);
  REQUIRE(plain);
  CHECK(plain->user == Catch::Approx(3));
  CHECK(plain->system == Catch::Approx(0.5));
  CHECK_FALSE(plain->memory_peak);
  CHECK_FALSE(plain->oom_kills);
  node.put(task + "/memory.peak", "4096\n");
  node.put(task + "/memory.events", "low 0\noom 3\noom_kill 2\n");
  auto full = (*made)->take(3, 2);
  REQUIRE(full);
  CHECK(full->memory_peak == 4096U);
  CHECK(full->oom_kills == 2U);
}

TEST_CASE("where a cgroup is to give a controller its processes go below, and come back", "[root]") {
  RealCgroup real("hugetlb");
  if (!real.is_there) {
    std::puts("needs root and a cgroup of version 2 with the controller hugetlb: where a cgroup is to give it");
    return;
  }
  std::string child = std::to_string(real.child) + "\n";
  REQUIRE(real.text("cgroup.procs") == child);
  auto made = TaskCgroups::make(real.child, "f1-0", "hugetlb");
  REQUIRE(made);
  CHECK((*made)->without().empty());
  CHECK(real.text("cgroup.procs").empty());
  CHECK(real.text("nacre-f1-0/shell/cgroup.procs") == child);
  CHECK(real.text("nacre-f1-0/cgroup.subtree_control") == "hugetlb\n");
  pid_t task = ::fork();
  if (task == 0) {
    if (!(*made)->enter(0, 1)) ::_exit(1);
    ::pause();
  }
  REQUIRE(task > 0);
  std::string there;
  while (there.empty() && ::waitpid(task, nullptr, WNOHANG) == 0)
    if (there = real.text("nacre-f1-0/task-0.1/cgroup.procs"); there == "?") there = "";
  CHECK(there == std::to_string(task) + "\n");
  CHECK((*made)->take(0, 1));  // it still runs: the destructor kills it
  made->reset();
  int status = 0;
  REQUIRE(::waitpid(task, &status, 0) == task);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(real.text("cgroup.procs") == child);
  CHECK(real.text("nacre-f1-0/cgroup.procs") == "?");
}

TEST_CASE("processes of others in the shell's cgroup are left there, and named", "[root]") {
  RealCgroup real("hugetlb");
  if (!real.is_there) {
    std::puts("needs root and a cgroup of version 2 with the controller hugetlb: processes of others");
    return;
  }
  pid_t other = real.add();
  auto made = TaskCgroups::make(real.child, "f1-0", "hugetlb");
  REQUIRE(made);
  CHECK((*made)->without().find("has processes of others, such as " + std::to_string(other) + " (") !=
        std::string::npos);
  CHECK(real.text("nacre-f1-0/shell/cgroup.procs") == "?");
}

// Looks at GPUs by stand-ins of their tools, which are sh scripts here.

using namespace nacre::plugins;  // NOLINT

namespace {

constexpr const char* kDevice = "echo '0, GPU-a, 50, 100, 1000'";

struct GpuWorld {
  GpuWorld() : path("PATH", folder.path("") + ":/usr/bin:/bin") {}
  ~GpuWorld() {
    if (child > 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  GpuWorld(const GpuWorld&) = delete;
  GpuWorld& operator=(const GpuWorld&) = delete;

  void put(const char* tool, const std::string& script) const {
    std::string file = folder.file(tool, "#!/bin/sh\necho \"$0 $*\" >>" + folder.path("calls") + "\n" + script);
    REQUIRE(::chmod(file.c_str(), 0755) == 0);
  }
  void put_nvidia(const std::string& devices, const std::string& processes) const {
    put("nvidia-smi", fmt::format("case $1 in --query-gpu=*) {};; *) {};; esac\n", devices, processes));
  }
  [[nodiscard]] std::size_t calls() const {
    auto text = read_file(folder.path("calls"));
    return text ? static_cast<std::size_t>(std::count(text->begin(), text->end(), '\n')) : 0;
  }
  // A task of rank 2 that runs, with a process below it.
  void start_task() {
    child = ::fork();
    if (child == 0) {
      if (::fork() == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
    host.start_tasks({{2, child}});
  }
  GpuWatch& watch(event::Seconds most = GpuWatch::kMostTime) {
    if (!own)
      own.emplace(
          host, [this](const std::string& why) { said.push_back(why); }, most);
    return *own;
  }
  usage::GpuLook look(event::Seconds most = GpuWatch::kMostTime) {
    std::optional<usage::GpuLook> out;
    watch(most).look([&](const usage::GpuLook& look) { out = look; });
    REQUIRE(host.serve([&] { return out.has_value(); }));
    return *out;
  }

  kit::TemporaryFolder folder;
  kit::Variable path;
  kit::FakeHost host;
  std::vector<std::string> said;
  pid_t child = 0;
  std::optional<GpuWatch> own;
};

}  // namespace

TEST_CASE("the tools that are in the PATH are asked, one after the other, and only for a look") {
  GpuWorld world;
  world.start_task();
  world.put_nvidia(kDevice, fmt::format("echo '{}, GPU-a, 7'", world.child));
  world.put("rocm-smi", R"sh(echo '{"card0": {"GPU use (%)": "3"}}')sh");
  world.watch();
  CHECK(world.calls() == 0);
  auto look = world.look();
  CHECK(look.is_complete);
  CHECK(look.devices.size() == 2);
  CHECK(world.calls() == 3);
  auto tasks = gpus_of_tasks(world.host, look);
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[2] == usage::TaskGpu{7 << 20, 0.5});
  CHECK(world.said.empty());
  CHECK(world.watch().notes().empty());
}

TEST_CASE("who comes while a look is under way gets the same one") {
  GpuWorld world;
  world.put_nvidia(kDevice, ":");
  int done = 0;
  for (int i = 0; i < 3; ++i) world.watch().look([&](const usage::GpuLook&) { ++done; });
  REQUIRE(world.host.serve([&] { return done == 3; }));
  CHECK(world.calls() == 2);
}

TEST_CASE("a tool that fails is told of once, is asked three times in a row, and the others go on") {
  GpuWorld world;
  world.put_nvidia("echo 'NVIDIA-SMI has failed: no driver'; exit 9", ":");
  world.put("rocm-smi", R"sh(echo '{"card0": {"GPU use (%)": "3"}}')sh");
  for (int i = 0; i < 5; ++i) {
    auto look = world.look();
    CHECK_FALSE(look.is_complete);
    CHECK(look.devices.size() == 1);
  }
  CHECK(world.calls() == 3 + 5);
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with(
      "nvidia-smi: exited with code 9: NVIDIA-SMI has failed: no driver: what tasks use"));
  CHECK(world.watch().notes() == std::set<std::string>{world.said[0]});
}

TEST_CASE("a tool that works again is asked as before") {
  GpuWorld world;
  world.put_nvidia(kDevice, "echo garbage");
  CHECK_FALSE(world.look().is_complete);
  CHECK_FALSE(world.look().is_complete);
  world.put_nvidia(kDevice, ":");
  CHECK(world.look().is_complete);
  CHECK(world.watch().notes().empty());
  world.put_nvidia(kDevice, "exit 1");
  for (int i = 0; i < 2; ++i) CHECK_FALSE(world.look().is_complete);
  world.put_nvidia(kDevice, ":");
  CHECK(world.look().is_complete);
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with("nvidia-smi: it prints 'garbage', expected pid, UUID"));
}

TEST_CASE("one that hangs is killed with all that it has started, and one that prints without end is cut off") {
  GpuWorld world;
  world.put("rocm-smi", "sleep 600 & echo '{'; wait");
  CHECK_FALSE(world.look(event::Seconds(0.3)).is_complete);
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with("rocm-smi: took longer than 0.3 s: "));
  // A process that has left its group, and keeps the stream open, stands for one that waits in the kernel.
  GpuWorld stuck;
  stuck.put("rocm-smi", "setsid sleep 600 & echo $! >" + stuck.folder.path("stuck"));
  bool is_over = false;
  stuck.watch(event::Seconds(0.2)).look([&](const usage::GpuLook&) { is_over = true; });
  REQUIRE(stuck.host.serve([&] { return !stuck.said.empty(); }));
  CHECK(stuck.said[0].starts_with("rocm-smi: SIGKILL has not ended it: "));
  CHECK_FALSE(is_over);
  auto pid = parse_u64(trim(read_file(stuck.folder.path("stuck")).value()));
  REQUIRE(pid);
  ::kill(static_cast<pid_t>(*pid), SIGKILL);
  REQUIRE(stuck.host.serve([&] { return is_over; }));
  CHECK(stuck.said.size() == 1);
  GpuWorld other;
  other.put_nvidia("head -c 3000000 /dev/zero | tr '\\0' 1", ":");
  CHECK_FALSE(other.look().is_complete);
  REQUIRE(other.said.size() == 1);
  CHECK(other.said[0].starts_with("nvidia-smi: its output ends within a line: "));
}

TEST_CASE("where there is no tool nobody is asked, and that is said at once") {
  GpuWorld world;
  kit::Variable nowhere("PATH", world.folder.path(""));
  CHECK_FALSE(world.watch().has_tools());
  REQUIRE(world.said.size() == 1);
  CHECK(world.said[0].starts_with("neither nvidia-smi nor rocm-smi is in the shell's PATH: "));
  CHECK(world.look() == usage::GpuLook());
  CHECK(world.watch().notes() == std::set<std::string>{world.said[0]});
}

TEST_CASE("the end of a watch ends what runs, and calls nobody") {
  GpuWorld world;
  world.put_nvidia("sleep 600", ":");
  bool is_called = false;
  world.watch().look([&](const usage::GpuLook&) { is_called = true; });
  world.own.reset();
  CHECK(world.host.run_loop());
  CHECK_FALSE(is_called);
}

using Lines = std::vector<std::string>;

namespace {

// The leader's way to other shells, by hand.
class OtherShells final : public kit::QuietPort {
 public:
  void serve(bulk::Channel channel, Upward owner) override {
    if (channel == bulk::up::kUsage) upward_ = std::move(owner);
  }
  using QuietPort::serve;
  Result<bool> put(bulk::Channel /*channel*/, std::string_view bytes) override {
    if (!has_room) return false;
    sent.emplace_back(bytes);
    return true;
  }
  void taken(bulk::Id /*origin*/, bulk::Numbered /*number*/) override { ++taken_records; }

  void come(bulk::Id shell, std::string_view bytes) { upward_.on_record(shell, {}, bytes); }
  void room() {
    has_room = true;
    upward_.on_room();
  }

  bool has_room = true;
  Lines sent;
  int taken_records = 0;

 private:
  Upward upward_;
};

usage::UsageBatch last_batch(std::uint32_t shell, std::uint32_t rank) {
  usage::UsageBatch out;
  out.rows.emplace_back();
  out.rows[0].rank = rank;
  out.rows[0].started = 1;
  out.node = usage::NodeRow{shell, 1, 0.5, {}, {}};
  return out;
}

Json usage_of(kit::FakeHost& host, Json in) {
  plugin::Call call("job.usage");
  call.in = std::move(in);
  REQUIRE(host.stack().call(call));
  return call.out;
}

// A job of three shells with a task each; this one is `shell`.
struct MeasuredJob {
  explicit MeasuredJob(std::uint32_t shell, std::uint64_t most = 100, const Json& option = true)
      : host(kit::jobspec_of(3, 1, {"a", "b"}, Json::object()), kit::resources_of(3, 1), shell) {
    host.port = &port;
    host.stack().push(plugins::make_usage_of(host, most));
    host.options().set("usage", option);
    if (most >= 3) host.options().set("joblog", folder.path("joblog"));
    begun = host.call("shell.init");
    if (!begun) return;
    host.start_tasks();
    REQUIRE(host.call_task("task.fork", 0));
  }
  void end() {
    REQUIRE(host.end_task(0, value::WaitStatus::exited(0)));
    REQUIRE(host.call("shell.finish"));
  }

  kit::TemporaryFolder folder;
  OtherShells port;
  kit::FakeHost host;
  Result<int> begun = 0;
};

}  // namespace

TEST_CASE("usage: nothing is measured, or answered, unless it is asked for") {
  for (const Json& off : {Json(), Json(false), Json("off"), Json(0)}) {
    kit::FakeHost host(1);
    host.stack().push(plugins::make_usage(host));
    if (!off.is_null()) host.options().set("usage", off);
    REQUIRE(host.call("shell.init"));
    CHECK_FALSE(host.stack().listens("task.exit"));
    CHECK(usage_of(host, Json::object()).empty());
  }
}

TEST_CASE("usage: the leader waits for each other shell, which sends its rows or is lost") {
  MeasuredJob job(0);
  REQUIRE(job.begun);
  job.end();
  job.port.come(1, last_batch(1, 1).text());
  CHECK(job.port.taken_records == 1);
  REQUIRE(job.host.call("shell.tasks-complete"));
  CHECK(job.host.holds["usage"] == 1);
  plugin::Call lost("shell.lost");
  lost.in["shell_rank"] = 2;
  REQUIRE(job.host.stack().call(lost));
  CHECK(job.host.holds["usage"] == 0);
  job.host.ended({{"exit", {{"code", 0}}}});
  Json summary = usage_of(job.host, Json::object());
  CHECK(summary["missing"] == "2");
  CHECK(summary["ended"] == 2);
  CHECK(summary["nodes"].size() == 2);
  CHECK(usage_of(job.host, {{"from", 1}})["rows"].size() == 1);
}

TEST_CASE("usage: rows that are not of the shell that sends them are left out") {
  MeasuredJob job(0);
  for (const std::string& bytes : {last_batch(1, 2).text(), last_batch(2, 1).text(), std::string("no JSON")}) {
    job.host.logged.clear();
    job.port.come(1, bytes);
    CHECK(job.host.logged.size() == 1);
  }
  CHECK(usage_of(job.host, {{"from", 0}})["rows"].empty());
}

TEST_CASE("usage: another shell sends what it has once there is room, its node at last") {
  MeasuredJob job(1);
  job.port.has_room = false;
  job.end();
  CHECK(job.port.sent.empty());
  job.port.room();
  REQUIRE(job.port.sent.size() == 1);
  auto batch = usage::UsageBatch::parse(job.port.sent[0]).value();
  REQUIRE(batch.rows.size() == 1);
  CHECK(batch.rows[0].rank == 1);
  CHECK(batch.node->shell == 1);
  CHECK(batch.node->tasks == 1);
  CHECK_FALSE(batch.totals);
  REQUIRE(job.host.call("shell.exit"));
  CHECK(job.port.sent.size() == 1);
}

TEST_CASE("usage: rows whose commands are long go in as many records as they need") {
  kit::FakeHost host(2);
  OtherShells port;
  host.port = &port;
  plugins::UsageUplink uplink(host, {}, false, false);
  uplink.serve([](bulk::Id, std::string_view) {});
  constexpr std::uint32_t kRows = 150;
  for (std::uint32_t rank = 0; rank < kRows; ++rank) {
    usage::TaskRow row;
    row.rank = rank;
    row.command.assign(usage::TaskRow::kMaxCommand, '\x01');
    uplink.add(std::move(row));
  }
  uplink.finish({1, kRows, 0.5, {}, {}});
  std::vector<std::uint32_t> ranks;
  for (std::size_t i = 0; i < port.sent.size(); ++i) {
    CHECK(port.sent[i].size() <= bulk::kMaxRecord);
    auto batch = usage::UsageBatch::parse(port.sent[i]).value();
    for (const usage::TaskRow& row : batch.rows) ranks.push_back(row.rank);
    CHECK(batch.node.has_value() == (i + 1 == port.sent.size()));
  }
  REQUIRE(ranks.size() == kRows);
  for (std::uint32_t rank = 0; rank < kRows; ++rank) CHECK(ranks[rank] == rank);
}

TEST_CASE("usage: of more tasks than the most there are only totals, and no log") {
  MeasuredJob other(1, 2);
  REQUIRE(other.begun);
  other.end();
  REQUIRE(other.port.sent.size() == 1);
  auto batch = usage::UsageBatch::parse(other.port.sent[0]).value();
  CHECK(batch.rows.empty());
  REQUIRE(batch.totals);
  CHECK(batch.totals->ended == 1);
  MeasuredJob leader(0, 2);
  leader.end();
  leader.port.come(1, other.port.sent[0]);
  Json summary = usage_of(leader.host, Json::object());
  CHECK(summary["ended"] == 2);
  CHECK(summary["measures"]["wall"]["n"] == 2);
  CHECK(summary["measures"]["wall"].contains("median_at_most"));
  CHECK(usage_of(leader.host, {{"from", 0}})["rows"].empty());
  kit::FakeHost host(3);
  host.stack().push(plugins::make_usage_of(host, 2));
  host.options().set("joblog", "log");
  CHECK(host.call("shell.init").error().message ==
        "plugin 'usage': shell.init: joblog: a log has a line for each task, of at most 2 tasks; the job has 3: "
        "leave it out, or take usage, whose summary has no limit");
}

TEST_CASE("usage: the log has the job's command, or the task's own") {
  MeasuredJob job(0);
  job.host.tasks()[0]->command().argv = {"a", "it's"};
  job.end();
  job.port.come(1, last_batch(1, 1).text());
  job.host.ended({{"exit", {{"code", 0}}}});
  std::string log = read_file(job.folder.path("joblog")).value();
  CHECK(log.find("\ta 'it'\\''s'\n") != std::string::npos);
  CHECK(log.find("\ta b\n") != std::string::npos);
}

TEST_CASE("usage: with joblog=on, as other shells have it, rows have commands, and nothing is written") {
  OtherShells port;
  kit::FakeHost host(kit::jobspec_of(3, 1, {"a", "b"}, Json::object()), kit::resources_of(3, 1), 1);
  host.port = &port;
  host.stack().push(plugins::make_usage(host));
  host.options().set("joblog", "on");
  REQUIRE(host.call("shell.init"));
  host.start_tasks();
  host.tasks()[0]->command().argv = {"c"};
  REQUIRE(host.call_task("task.fork", 0));
  REQUIRE(host.end_task(0, value::WaitStatus::exited(0)));
  REQUIRE(host.call("shell.finish"));
  REQUIRE(port.sent.size() == 1);
  CHECK(usage::UsageBatch::parse(port.sent[0]).value().rows.at(0).command == "c");
}

TEST_CASE("usage: what is no place is refused") {
  for (const Json& option : {Json::object(), Json::array(), Json(""), Json(99999)}) {
    kit::FakeHost host(1);
    host.stack().push(plugins::make_usage(host));
    host.options().set("usage", option);
    CHECK_FALSE(host.call("shell.init"));
  }
}
