// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "event/clock.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "job_of_nodes.hpp"
#include "plugins/builtins.hpp"
#include "plugins/health/checks.hpp"
#include "plugins/health/pairs.hpp"
#include "record/bad_hosts.hpp"
#include "variable.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT
using kit::FakeHost;

namespace {

job::Options health_options(const std::vector<std::string>& arguments) {
  job::Options out;
  for (const std::string& each : arguments) REQUIRE(out.set_from_argument(each));
  return out;
}

std::string health_error(const std::vector<std::string>& arguments) {
  auto read = HealthOption::read(health_options(arguments));
  return read ? "none" : read.error().message;
}

CheckProcess::Outcome check_outcome(FakeHost& host, const std::function<int()>& act, double most = 60) {
  CheckProcess process(host);
  std::optional<CheckProcess::Outcome> out;
  REQUIRE(process.start(act, event::Seconds(most), [&](const CheckProcess::Outcome& outcome) { out = outcome; }));
  REQUIRE(host.serve([&] { return out.has_value(); }));
  return *out;
}

// The leader of a job of several shells, in which the test gives the other shells' answers.
struct CheckedJob {
  CheckedJob(std::uint32_t shells, const std::vector<std::string>& arguments)
      : host(kit::jobspec_of(shells), kit::resources_of(shells, 1)) {
    host.environment().set("PATH", "/usr/bin:/bin");
    host.options() = health_options(arguments);
    host.stack().push(make_health(host));
  }
  void others_give(std::uint32_t shell, const std::string& reason) {
    const HostCheck check{reason.empty() ? std::optional<HostFault>() : HostFault{"command", reason}};
    host.gathers_elsewhere[wire::to_text(check)].insert(shell);
  }
  void run() {
    REQUIRE(host.call("shell.pre-init"));
    REQUIRE(host.run_loop());
  }
  [[nodiscard]] std::string exceptions() {
    std::string out;
    for (const auto& each : host.exceptions)
      out += std::to_string(each.severity) + " " + each.type + ": " + each.message + "\n";
    host.exceptions.clear();
    return out;
  }
  [[nodiscard]] Json told() {
    plugin::Call call("job.health");
    REQUIRE(host.stack().call(call));
    for (Json& each : call.out["hosts"]) {
      CHECK(each.at("time").is_number());
      each.erase("time");
    }
    return call.out["hosts"];
  }
  kit::TemporaryFolder folder;  // the list of jobs is there
  kit::Variable jobs{"NACRE_JOBS_DIR", folder.path("jobs")};
  FakeHost host;
};

}  // namespace

TEST_CASE("health is off, quick, or on by any of its members") {
  using Depth = HealthOption::Depth;
  CHECK(HealthOption::read({})->depth == Depth::off);
  CHECK(HealthOption::read(health_options({"health=off"}))->depth == Depth::off);
  CHECK(HealthOption::read(health_options({"health"}))->depth == Depth::quick);
  CHECK(HealthOption::read(health_options({"health=quick"}))->depth == Depth::quick);
  auto both =
      HealthOption::read(health_options({"health=quick", "health.command=test -d /x", "health.timeout=2m"}));
  CHECK(both->depth == Depth::quick);
  CHECK(both->command == "test -d /x");
  CHECK(both->timeout.count() == 120);
  CHECK(both->ends);
  auto alone = HealthOption::read(health_options({"health.command=false", "health.on-bad=warn"}));
  CHECK(alone->depth == Depth::quick);
  CHECK(alone->command == "false");
  CHECK_FALSE(alone->ends);
  CHECK(HealthOption::read(health_options({"health.command=x", "health=off"}))->depth == Depth::off);
}

TEST_CASE("wrong values of health are refused") {
  CHECK(health_error({"health=deep"}) == R"(health: expected off, quick or pairs, got "deep")");
  CHECK(health_error({"health.command= "}) == R"(health.command: expected a command, got " ")");
  CHECK(health_error({"health.command=5"}) == "health.command: expected a string, got 5");
  CHECK(health_error({"health.timeout=0"}) == "health.timeout: expected a time above 0, such as 5s, got 0");
  CHECK(health_error({"health.timeout=infinity"}).find("expected a time above 0") != std::string::npos);
  CHECK(health_error({"health.on-bad=go-on"}) == R"(health.on-bad: expected end or warn, got "go-on")");
  CHECK(health_error({"health.comand=x"}).find("health.comand: unknown key") == 0);
}

TEST_CASE("a check ends with why it has failed, or in time") {
  FakeHost host;
  CHECK(check_outcome(host, [] { return 0; }).is_good());
  auto failed = check_outcome(host, shell_command("echo one; echo two >&2; exit 3", "", {"PATH=/usr/bin:/bin"}));
  CHECK_FALSE(failed.is_good());
  CHECK(failed.why(event::Seconds(1)) == "two");
  CHECK(check_outcome(host, [] { return 3; }).why(event::Seconds(1)) == "exited with code 3");
  CHECK(check_outcome(host, shell_command("pwd; exit 1", "/usr", {})).why(event::Seconds(1)) == "/usr");
  CHECK(check_outcome(host, shell_command("echo $A; exit 1", "", {"A=b c"})).why(event::Seconds(1)) == "b c");
  // The check does not wait for processes that its command has left.
  CHECK(check_outcome(host, shell_command("sleep 100 & exit 0", "", {"PATH=/usr/bin:/bin"})).is_good());
  auto late = check_outcome(host, shell_command("exec sleep 100", "", {"PATH=/usr/bin:/bin"}), 0.05);
  CHECK(late.is_late);
  CHECK(late.why(event::Seconds(0.05)) == "took longer than 50ms");
}

TEST_CASE("a directory that cannot be written to has a fault, and nothing stays in one that can") {
  kit::TemporaryFolder folder;
  CHECK(fault_of_directory(folder.path("")).empty());
  CHECK(std::filesystem::is_empty(folder.path("")));
  CHECK(fault_of_directory(folder.path("none")) == folder.path("none") + ": No such file or directory");
  CHECK(fault_of_directory("/proc").find("/proc: ") == 0);
}

TEST_CASE("a process of another host that has the same number may check a directory that both share") {
  kit::TemporaryFolder folder;
  static_cast<void>(folder.file(fmt::format(".nacre-health-{}", ::getpid()), ""));
  CHECK(fault_of_directory(folder.path("")).empty());
}

TEST_CASE("memory is short below two percent of all") {
  CHECK(fault_of_memory("MemTotal:     1000000 kB\nMemFree:   5 kB\nMemAvailable:  20000 kB\n").empty());
  CHECK(fault_of_memory("MemTotal:     1000000 kB\nMemFree:   5 kB\nMemAvailable:  19999 kB\n") ==
        "19 MiB of 976 MiB are available, 2 % expected");
  CHECK(fault_of_memory("nothing known").empty());
}

TEST_CASE("hosts are judged by what each has found, and their clocks by that of the first") {
  std::map<std::uint32_t, HostCheck> hosts{{0, {.clock = 100}}, {1, {.clock = 100.4}}, {2, {.clock = 99.5}}};
  CHECK(judge(hosts, {99.9, 100.1}).verdict.bad.empty());
  CHECK(judge(hosts, {99.9, 100.1}).notes.empty());
  hosts[1].clock = 102.1;
  hosts[2].clock = 90;
  hosts[2].bad = HostFault{"disk", "/tmp: full"};
  const Judged judged = judge(hosts, {99.9, 100.1});
  REQUIRE(judged.verdict.bad.size() == 1);
  CHECK(judged.verdict.bad[0].shell == 2);
  CHECK(judged.verdict.bad[0].fault.str() == "disk: /tmp: full");
  CHECK(judged.notes == std::map<std::uint32_t, std::string>{{1, "its clock is 2.0 s ahead of that of shell 0"},
                                                             {2, "its clock is 9.9 s behind that of shell 0"}});
}

TEST_CASE("a working directory that no host can write to makes none bad") {
  std::map<std::uint32_t, HostCheck> hosts{{0, {.directory = "/w: Read-only file system"}}, {1, {}}};
  const Judged one = judge(hosts, {});
  REQUIRE(one.verdict.bad.size() == 1);
  CHECK(one.verdict.bad[0].shell == 0);
  CHECK(one.verdict.bad[0].fault.str() == "disk: /w: Read-only file system");
  hosts[1].directory = "/w: Permission denied";
  const Judged all = judge(hosts, {});
  CHECK(all.verdict.bad.empty());
  CHECK(all.notes == std::map<std::uint32_t, std::string>{{0, "/w: Read-only file system: so it is on all hosts"}});
}

TEST_CASE("what shells tell each other of their hosts is read as it was written") {
  const HostCheck check{HostFault{"disk", "full"}, "/w: no", 12.5};
  const std::string text = wire::to_text(check);
  CHECK(text == R"({"bad":{"check":"disk","reason":"full"},"clock":12.5,"directory":"/w: no"})");
  CHECK(wire::to_text(*HostCheck::parse(text)) == text);
  CHECK(wire::to_text(HostCheck()) == "{}");
  const std::string verdict = wire::to_text(HealthVerdict{{{3, {"gpu", "gone"}}}});
  CHECK(verdict == R"({"bad":[{"fault":{"check":"gpu","reason":"gone"},"shell":3}]})");
  CHECK(wire::from_text<HealthVerdict>(verdict)->shells().str() == "3");
}

TEST_CASE("healthy hosts start their tasks, and none is left out") {
  CheckedJob it(3, {"health=quick", "health.command=test $NACRE_HEALTH_WHEN$NACRE_HEALTH_SHELL = start0"});
  it.others_give(1, "");
  it.others_give(2, "");
  it.run();
  CHECK(it.exceptions().empty());
  CHECK(it.host.start_holds.empty());
  REQUIRE(it.host.left_out.size() == 1);
  CHECK(it.host.left_out[0].empty());
  CHECK(it.told() == Json::array());
  auto mine = HostCheck::parse(it.host.gathers["health.found"]);
  REQUIRE(mine);
  CHECK_FALSE(mine->bad);
  CHECK(mine->clock > 0);
}

TEST_CASE("health=off does nothing") {
  CheckedJob it(1, {"health=off", "health.command=touch /never"});
  it.run();
  CHECK(it.host.start_holds.empty());
  CHECK(it.host.left_out.empty());
  CHECK(it.host.gathers.empty());
}

TEST_CASE("without a spare a bad host ends the job before its tasks start") {
  CheckedJob it(3, {"health.command=true"});
  it.others_give(1, "broken");
  it.host.replaced.emplace(1, Error{ENOENT, "there is no spare left"});
  it.run();
  CHECK(it.exceptions() ==
        "0 health: node1 is bad: command: broken; there is no spare left, so no task is started (with "
        "health.on-bad=warn they are all the same)\n");
  CHECK(it.host.start_holds.size() == 1);
  REQUIRE(it.host.left_out.size() == 1);
  CHECK(it.host.left_out[0].str() == "1");
  CHECK(it.told() ==
        Json::array({Json{
            {"host", "node1"}, {"shell", 1}, {"check", "command"}, {"reason", "broken"}, {"done", "ended"}}}));
}

TEST_CASE("with a spare, or a warning, the job goes on") {
  CheckedJob it(4, {"health.command=echo here; false", "health.on-bad=warn"});
  it.others_give(1, "one");
  it.others_give(3, "three");
  it.host.replaced.emplace(1, 2U);
  it.host.replaced.emplace(0, Error{ENOENT, "there is no spare left"});
  it.run();
  CHECK(it.exceptions() ==
        "2 health: node0 is bad: command: here; its tasks start all the same (health.on-bad=warn)\n"
        "2 health: node1 is bad: command: one; its tasks start on the spare shell 2 on node2\n"
        "2 health: node3 is bad: command: three; it gets no tasks\n");
  CHECK(it.host.start_holds.empty());
  CHECK(it.told()[1].value("by", "") == "node2");
}

TEST_CASE("the leader tells which hosts were bad lately, and remembers those that are") {
  CheckedJob it(3, {"health.command=true"});
  auto directory = record::EntryDirectory::make(it.folder.path("jobs"));
  REQUIRE(directory);
  const double now = event::wall_clock();
  REQUIRE(record::BadHosts::add(
      *directory, {{now - 7300, "node2", "disk", "full"}, {now - 100, "elsewhere", "disk", "full"}}, now));
  it.others_give(1, "broken");
  it.host.replaced.emplace(1, 2U);
  it.run();
  CHECK(std::count(
            it.host.logged.begin(), it.host.logged.end(),
            "notice health: found bad by earlier jobs: node2 2 h ago (disk: full); see nacre report --hosts") == 1);
  const auto hosts = record::BadHosts::read({it.folder.path("jobs")}, now + 1).by_host();
  REQUIRE(hosts.contains("node1"));
  CHECK(hosts.at("node1").last.reason == "broken");
  CHECK(hosts.size() == 3);
}

TEST_CASE("plugins of the site find hosts bad, by the topic shell.health") {
  CheckedJob it(2, {"health"});
  it.host.replaced.emplace(0, 1U);
  auto site = std::make_unique<plugin::Plugin>("links", "site.lua");
  site->on("shell.health", [](plugin::Call& call) -> Result<void> {
    CHECK(call.in["when"] == "start");
    return Error{EIO, "/etc/site.lua:12: ib0 has no link"};
  });
  it.host.stack().push(std::move(site));
  it.run();
  CHECK(it.exceptions() ==
        "2 health: node0 is bad: links: ib0 has no link; its tasks start on the spare shell 1 on node1\n");
}

// ---- gpus -------------------------------------------------------------------------------

namespace {

constexpr const char* kTwoGpus =
    "\n=devices\n0, GPU-a, 5, 10, 4000\n1, GPU-b, [N/A], 10, 4000\n\n=errors\n0, 0\n1, [N/A]\n";

GpuJudgement judged(const std::string& text, const std::string& wanted = "0-1") {
  auto state = GpuState::parse(text);
  REQUIRE(state);
  return judge_gpus(*state, *value::Idset::parse(wanted), [](std::int64_t pid) { return pid == 7; });
}

}  // namespace

TEST_CASE("GPUs that are there, without errors and used by nobody else, are healthy") {
  const std::string none = std::string(kTwoGpus) + "\n=processes\n";
  for (const std::string& text : {none, none + "7, GPU-a, 100\n"}) {
    CHECK(judged(text).fault.empty());
    CHECK(judged(text).in_use.empty());
  }
  CHECK(judged(none, "0-2").fault == "2 of 3 GPUs are there");
  CHECK_FALSE(GpuState::parse("\n=devices\n"));
  CHECK(judged(none + "8, GPU-b, 100\n").in_use == "GPU 1 is used by process 8, which has 100 MiB");
  CHECK(judged(none + "8, GPU-b, [N/A]\n").in_use == "GPU 1 is used by process 8");
  CHECK(judged(none + "8, GPU-b, 100\n", "0").in_use.empty());    // the GPU is not the job's
  CHECK(judged(none + "8, GPU-b, 100\n", "4-5").in_use.empty());  // R numbers them in another way
}

TEST_CASE("memory errors that cannot be corrected are a fault of a GPU of the job") {
  const std::string text = "\n=devices\n0, GPU-a, 5, 10, 4000\n1, GPU-b, 5, 10, 4000\n\n=errors\n0, 0\n1, 2\n";
  CHECK(judged(text).fault == "GPU 1 has had 2 memory errors that cannot be corrected");
  CHECK(judged(text, "0").fault.empty());
  CHECK_FALSE(GpuState::parse("\n=errors\nnone\n"));
  CHECK_FALSE(GpuState::parse("\n=devices\nno devices were found\n"));
}

TEST_CASE("cards of rocm-smi count, and their processes") {
  const std::string text = R"json(=rocm
{"card0": {"GPU use (%)": "25", "VRAM Total Memory (B)": "1000000", "VRAM Total Used Memory (B)": "500000"}})json";
  CHECK(judged(text, "0").fault.empty());
  CHECK(judged(text, "0-1").fault == "1 of 2 GPUs is there");
}

TEST_CASE("both tools are asked in one command, which fails with the first") {
  const std::string both = gpu_command(true, true);
  CHECK(both.find(
            "nvidia-smi --query-gpu=index,ecc.errors.uncorrected.volatile.total --format=csv,noheader,nounits && "
            "echo && echo =processes") != std::string::npos);
  CHECK(both.find("&& echo =rocm && rocm-smi") != std::string::npos);
  CHECK(gpu_command(true, false).find("rocm") == std::string::npos);
  CHECK(gpu_command(false, true).find("nvidia") == std::string::npos);
}

TEST_CASE("the kernel's log has faults of the hardware, and lately") {
  constexpr std::uint64_t kNow = 1'000'000'000'000, kYear = std::uint64_t{365} * 86400 * 1'000'000;
  auto record = [](std::uint64_t time, const std::string& text, std::uint64_t now = kNow) {
    return fault_of_kernel_record("3,77," + std::to_string(time) + ",-;" + text + "\n SUBSYSTEM=pci\n", now);
  };
  const std::string lost = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.";
  CHECK(record(kNow - 5, lost) == "the kernel has logged " + lost);
  CHECK(record(kNow - 800'000'000, lost).empty());
  CHECK_FALSE(
      record(kYear - 3'000'000'000, lost, kYear).empty());  // the log's clock lags behind, by 100 ppm at most
  CHECK(record(kYear - 4'000'000'000, lost, kYear).empty());
  CHECK(record(kNow - 5, "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, MMU Fault").empty());
  CHECK(record(kNow - 5, "NVRM: Xid (PCI:0000:3b:00): x").empty());
  CHECK(record(kNow - 5, "usb 1-1: new device").empty());
  CHECK(fault_of_kernel_record("", kNow).empty());
  CHECK(fault_of_kernel_record("1,2;NVRM: Xid (a): 79", kNow).empty());
}

// ---- before tasks start again -----------------------------------------------------------

namespace {

// A job that has started after a first check without findings.
CheckedJob started_job(const std::vector<std::string>& more) {
  std::vector<std::string> options{"health.command=[ $NACRE_HEALTH_WHEN = start ] || { echo worn; exit 1; }"};
  options.insert(options.end(), more.begin(), more.end());
  return {3, options};
}

Result<int> call_with(FakeHost& host, std::string_view topic, Json members) {
  plugin::Call call(topic);
  call.in = std::move(members);
  return host.stack().call(call);
}

void start_again(CheckedJob& it, bool all) {
  if (all) REQUIRE(call_with(it.host, "job.tasks-restart", {{"scope", "job"}, {"restarts", 1}}));
  REQUIRE(call_with(it.host, "shell.restart", {{"ranks", "0"}, {"all", all}}));
  CHECK(it.host.start_holds.size() == 1);
  REQUIRE(it.host.run_loop());
}

}  // namespace

TEST_CASE("a host that has become bad ends the job where the leader's tasks start again") {
  for (bool all : {false, true}) {
    CheckedJob it = started_job({"on-lost=replace"});
    it.run();
    start_again(it, all);
    CHECK(it.exceptions() ==
          "0 health: node0 is bad: command: worn; its tasks cannot start again elsewhere (with health.on-bad=warn "
          "they start there all the same)\n");
    CHECK_FALSE(it.host.is_lost);
    CHECK(it.host.start_holds.size() == 1);
    CHECK(it.told()[0].value("done", "") == "ended");
  }
}

TEST_CASE("with health.on-bad=warn tasks start again on a bad host") {
  for (bool all : {false, true}) {
    CheckedJob it = started_job({"health.on-bad=warn"});
    it.run();
    start_again(it, all);
    CHECK(it.exceptions() ==
          "2 health: node0 is bad: command: worn; its tasks start all the same (health.on-bad=warn)\n");
    CHECK(it.host.start_holds.empty());
  }
}

TEST_CASE("where all tasks start again and another host is bad its loss is waited for") {
  for (const char* end : {"job.tasks-moved", "job.tasks-restart", "shell.not-replaced"}) {
    CheckedJob it(3, {"health.command=true", "on-lost=replace"});
    it.run();
    it.others_give(2, "worn");
    start_again(it, true);
    CHECK(it.exceptions() ==
          "2 health: node2 is bad: command: worn; its shell counts as lost, so that its tasks start elsewhere\n");
    CHECK(it.host.gathers.contains("health.restart.1"));
    CHECK(it.host.gathered_up_to == 2U);
    CHECK_FALSE(it.host.is_lost);
    CHECK(it.host.start_holds.size() == 1);
    REQUIRE(call_with(it.host, end, {{"scope", "job"}, {"restarts", 2}}));
    CHECK(it.host.start_holds.empty());
  }
}

TEST_CASE("what is found for a start of all tasks that another one replaces does not count") {
  CheckedJob it(3, {"health.command=true", "on-lost=replace"});
  it.run();
  auto restart = [&](int number) {
    REQUIRE(call_with(it.host, "job.tasks-restart", {{"scope", "job"}, {"restarts", number}}));
  };
  restart(1);
  REQUIRE(call_with(it.host, "shell.restart", {{"ranks", "0"}, {"all", true}}));
  CHECK(it.host.start_holds.size() == 1);
  restart(2);
  CHECK(it.host.start_holds.empty());
  REQUIRE(it.host.run_loop());
  CHECK_FALSE(it.host.gathers.contains("health.restart.1"));
  REQUIRE(call_with(it.host, "shell.restart", {{"ranks", "0"}, {"all", true}}));
  REQUIRE(it.host.run_loop());
  CHECK(it.host.gathers.contains("health.restart.2"));
  CHECK(it.host.start_holds.empty());
}

TEST_CASE("a shell on a host that has become bad is lost") {
  for (const char* topic : {"shell.restart", "shell.take-over"}) {
    const kit::TemporaryFolder folder;
    const kit::Variable jobs{"NACRE_JOBS_DIR", folder.path("jobs")};
    FakeHost host(kit::jobspec_of(3), kit::resources_of(3, 1), 1);
    host.environment().set("PATH", "/usr/bin:/bin");
    host.options() = health_options({"health.command=[ $NACRE_HEALTH_WHEN = start ]", "on-lost=replace"});
    host.stack().push(make_health(host));
    REQUIRE(host.call("shell.init"));  // the shell has joined later: there was no shell.pre-init
    REQUIRE(call_with(host, topic, {{"ranks", "1"}}));
    REQUIRE(host.run_loop());
    CHECK(host.is_lost);
    CHECK(host.start_holds.size() == 1);
  }
}

namespace {

using Shells = std::set<std::uint32_t>;

// Hosts of which pairs with a bad host fail, or are slow.
struct Trial {
  explicit Trial(std::uint32_t hosts) : hosts_(hosts) {}

  Shells fails = {}, slow = {}, lost = {};
  std::uint32_t slow_rounds = PairTrial::kMostRounds;  // later ones are as fast as usual
  double time = 1;

  // Returns the shells that the trial finds bad.
  Shells run() {
    PairTrial trial(value::Idset::range(0, hosts_ - 1));
    std::set<std::pair<std::uint32_t, std::uint32_t>> tried;
    rounds = 0;
    while (auto round = trial.next()) {
      CHECK(round->number == ++rounds);
      Shells in_round;
      std::map<std::uint32_t, PairResult> results;
      for (std::uint32_t each = 0; each < hosts_; ++each) results[each] = {};
      for (const auto& [one, other] : round->pairs) {
        CHECK(one < other);
        CHECK(tried.emplace(one, other).second);  // no pair is tried twice
        CHECK(in_round.insert(one).second);
        CHECK(in_round.insert(other).second);
        const PairResult result{has(fails, one, other) ? "broken" : "", is_slow(one, other) ? 4 * time : time};
        results[one] = results[other] = result;
      }
      for (std::uint32_t each : lost) results.erase(each);
      trial.take(results);
    }
    CHECK(rounds <= PairTrial::kMostRounds);
    Shells out;
    reasons.clear();
    for (const BadHost& each : trial.bad([](std::uint32_t shell) { return "n" + std::to_string(shell); })) {
      CHECK(each.fault.check == "pair");
      out.insert(each.shell);
      reasons.push_back(each.fault.reason);
    }
    doubtful = trial.doubtful().str();
    return out;
  }

  std::uint32_t rounds = 0;
  std::vector<std::string> reasons;
  std::string doubtful;

 private:
  static bool has(const Shells& shells, std::uint32_t one, std::uint32_t other) {
    return shells.contains(one) || shells.contains(other);
  }
  bool is_slow(std::uint32_t one, std::uint32_t other) const {
    return rounds <= slow_rounds && has(slow, one, other);
  }
  std::uint32_t hosts_;
};

// Small jobs, and some larger ones up to 64 hosts.
std::vector<std::uint32_t> sizes_from(std::uint32_t least) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t hosts = least; hosts <= 12; ++hosts) out.push_back(hosts);
  out.insert(out.end(), {31, 32, 63, 64});
  return out;
}

}  // namespace

TEST_CASE("healthy hosts are good after a round, an odd one after two") {
  for (std::uint32_t hosts = 1; hosts <= 64; ++hosts) {
    CAPTURE(hosts);
    Trial trial(hosts);
    CHECK(trial.run().empty());
    CHECK(trial.doubtful.empty());
    CHECK(trial.rounds == (hosts == 1 ? 0 : 1 + hosts % 2));
  }
}

TEST_CASE("one bad host is found among 3 to 64, and its partners are not blamed") {
  for (std::uint32_t hosts : sizes_from(3)) {
    for (std::uint32_t bad = 0; bad < hosts; ++bad) {
      CAPTURE(hosts, bad);
      Trial failing(hosts);
      failing.fails = {bad};
      CHECK(failing.run() == Shells{bad});
      CHECK(failing.doubtful.empty());
      CHECK(failing.rounds <= 2 + hosts % 2);
    }
  }
}

TEST_CASE("one slow host is found among 4 to 64") {
  for (std::uint32_t hosts : sizes_from(4)) {
    for (std::uint32_t bad = 0; bad < hosts; ++bad) {
      CAPTURE(hosts, bad);
      Trial trial(hosts);
      trial.slow = {bad};
      CHECK(trial.run() == Shells{bad});
      CHECK(trial.doubtful.empty());
    }
  }
}

TEST_CASE("two bad hosts are found among 5 to 64, whether they are in one pair or not") {
  for (std::uint32_t hosts : sizes_from(5)) {
    for (std::uint32_t one = 0; one < hosts; one += 1 + hosts / 16) {
      for (std::uint32_t other = one + 1; other < hosts; other += 1 + hosts / 16) {
        CAPTURE(hosts, one, other);
        Trial trial(hosts);
        trial.fails = {one, other};
        CHECK(trial.run() == trial.fails);
        CHECK(trial.doubtful.empty());
      }
    }
  }
}

TEST_CASE("what cannot be told is in doubt, and nobody is blamed") {
  Trial two(2);
  two.fails = {1};
  CHECK(two.run().empty());
  CHECK(two.doubtful == "0-1");
  CHECK(two.rounds == 1);
  Trial all(4);
  all.fails = {0, 1, 2, 3};
  CHECK(all.run().empty());
  CHECK(all.doubtful == "0-3");
  CHECK(all.rounds == 3);
}

TEST_CASE("why a host is bad names those with whom it has failed") {
  Trial trial(4);
  trial.fails = {1};
  CHECK(trial.run() == Shells{1});
  CHECK(trial.reasons == std::vector<std::string>{"with n0: broken, with n3: broken"});
  trial.fails = {};
  trial.slow = {1};
  CHECK(trial.run() == Shells{1});
  CHECK(trial.reasons ==
        std::vector<std::string>{
            "with n0: took 4.0 s, where 1.0 s are usual, with n3: took 4.0 s, where 1.0 s are usual, "
            "with n2: took 4.0 s, where 1.0 s are usual"});
}

TEST_CASE("a host that is busy for two rounds is not slow") {
  for (std::uint32_t hosts : sizes_from(4)) {
    CAPTURE(hosts);
    Trial trial(hosts);
    trial.slow = {0};
    trial.slow_rounds = 2;
    CHECK(trial.run().empty());
    CHECK(trial.doubtful.empty());
  }
}

TEST_CASE("short commands that differ by a moment are not slow") {
  Trial trial(4);
  trial.slow = {1};
  for (double time : {0.05, 0.4}) {
    trial.time = time;
    CHECK(trial.run().empty());
    CHECK(trial.rounds == 1);
  }
}

TEST_CASE("a host that is lost meanwhile is left out, and the other is tried again") {
  Trial trial(4);
  trial.lost = {1};
  CHECK(trial.run().empty());
  CHECK(trial.doubtful.empty());
  CHECK(trial.rounds == 2);
}

TEST_CASE("a round of pairs is read as it was written") {
  const PairRound round{2, {{0, 3}, {1, 2}}};
  const std::string text = wire::to_text(round);
  CHECK(text == R"({"pairs":[[0,3],[1,2]],"round":2})");
  auto read = wire::from_text<PairRound>(text);
  REQUIRE(read);
  CHECK(read->pairs == round.pairs);
  CHECK(read->peer_of(3)->shell == 0);
  CHECK_FALSE(read->peer_of(3)->is_first);
  CHECK(read->peer_of(1)->is_first);
  CHECK_FALSE(read->peer_of(4));
  CHECK(wire::to_text(PairResult{}) == "{}");
  CHECK(wire::from_text<PairResult>(wire::to_text(PairResult{"x", 1.5}))->took == 1.5);
}
