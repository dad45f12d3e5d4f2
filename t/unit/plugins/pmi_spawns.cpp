// SPDX-License-Identifier: Apache-2.0
//
// PmiSpawns and SpawnedGroup, with real processes: clients ask for them over PMI.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/pmi/spawn_order.hpp"
#include "plugins/pmi/spawns.hpp"
#include "pmi/key_exchange.hpp"
#include "pmi_clients.hpp"

using namespace nacre;
using plugins::place_spawn;
using plugins::PmiClients;
using plugins::PmiOptions;
using plugins::PmiSpawns;
using plugins::SpawnOrder;
using plugins::SpawnRoom;
using plugins::SpawnRound;
using plugins::SpawnRounds;

namespace fs = std::filesystem;

namespace {

using Texts = std::vector<std::string>;

// `count` processes of a script of /bin/sh.
struct Program {
  std::uint32_t count;
  std::string script;
  pmi::Entries info = {};
  std::string executable = "/bin/sh";
};

std::string blocks(const std::vector<Program>& programs) {
  std::string out;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Program& each = programs[i];
    out += fmt::format(
        "mcmd=spawn\nnprocs={}\nexecname={}\ntotspawns={}\nspawnssofar={}\nargcnt=2\narg1=-c\narg2={}\n",
        each.count, each.executable, programs.size(), i + 1, each.script);
    out += fmt::format("preput_num=0\ninfo_num={}\n", each.info.size());
    for (std::size_t n = 0; n < each.info.size(); ++n) {
      out += fmt::format("info_key_{}={}\ninfo_val_{}={}\n", n, each.info[n].first, n, each.info[n].second);
    }
    out += "endcmd\n";
  }
  return out;
}

// A task with the rank 7 that spawns. What the processes write to $OUT/NAME is wrote(NAME).
struct Spawner {
  explicit Spawner(PmiOptions pmi_options = {}) : job(1, pmi_options, 7, 8) {
    job.host.environment().set("PATH", "/usr/bin:/bin");
    job.host.environment().set("OUT", directory.native());
    job.host.make_tasks();
    job.on_spawn = [this](const pmi::SpawnRequest& request) { spawns.start(*job.group, request, 7, "rank 7"); };
    plugins::PmiStart start = plugins::PmiStart::of_job(job.host);
    start.universe_size = 64;
    spawns.begin(start, false);
    job.join(0);
  }
  // Ends leftovers of a failed test.
  ~Spawner() {
    for (pid_t pid : event::Children::descendants()) ::kill(pid, SIGKILL);
  }

  std::string spawn(const std::vector<Program>& programs) {
    std::string text = blocks(programs);
    text.pop_back();
    return job.ask(0, text);
  }
  [[nodiscard]] std::string wrote(const std::string& name) const {
    return nacre::read_file(directory / name).value_or("(no file)");
  }
  bool comes(const std::string& name) {
    return job.host.serve([&] { return fs::exists(directory / name); });
  }
  [[nodiscard]] int holds() const {
    auto found = job.host.holds.find("pmi-spawn");
    return found != job.host.holds.end() ? found->second : 0;
  }
  // Waits until all have ended, and nothing is held any more.
  void ends() {
    REQUIRE(job.host.serve([this] { return holds() == 0; }));
    CHECK(event::Children::descendants().empty());
    CHECK(job.host.children().watched() == 0);
  }

  kit::TemporaryFolder folder;
  fs::path directory = folder.path();
  PmiClients job;
  pmi::Quota quota{std::uint64_t{64} << 20};
  plugins::PmiGroupParts parts{job.host};
  PmiSpawns spawns{job.host, job.plugin, job.options, job.names, quota, parts};
};

// Scripts.
const std::string kRunOn = "exec 2> /dev/null; : > $OUT/runs.$PMI_RANK; while :; do sleep 0.02; done";
const std::string kJoinPmi =
    "printf 'cmd=init pmi_version=1 pmi_subversion=1\\n' >&$PMI_FD; read answer <&$PMI_FD; ";
const std::string kLeavePmi = "printf 'cmd=finalize\\n' >&$PMI_FD; read answer <&$PMI_FD; ";

}  // namespace

TEST_CASE("all that are asked for run, with their own ranks; the job is held until they have ended") {
  Spawner task;
  std::string script =
      "echo $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS, $PMI_SPAWNED > $OUT/env.$PMI_RANK; "
      "while [ ! -e $OUT/go ]; do sleep 0.02; done";
  CHECK(task.spawn({{2, script}, {1, script}}) == "cmd=spawn_result rc=0 errcodes=0,0,0");
  CHECK(task.holds() == 1);
  REQUIRE(task.comes("env.2"));
  CHECK(task.spawns.table().has_begun());
  std::set<std::uint32_t> ranks;
  task.spawns.table().each_process(
      [&](std::uint64_t spawn, std::uint32_t output, const plugins::SpawnedProcess& each) {
        CHECK(spawn == 1);
        CHECK(output == 7);
        CHECK(::kill(each.pid, 0) == 0);
        ranks.insert(each.rank);
      });
  CHECK(ranks == std::set<std::uint32_t>{0, 1, 2});
  std::ofstream(task.directory / "go").close();
  task.ends();
  CHECK(task.spawns.table().has_begun());
  task.spawns.table().each_process(
      [](std::uint64_t, std::uint32_t, const plugins::SpawnedProcess&) { CHECK(false); });
  CHECK(task.wrote("env.0") == "0 of 3, 0 of 3, 1\n");
  CHECK(task.wrote("env.2") == "2 of 3, 2 of 3, 1\n");
  CHECK(task.job.raised().empty());
  CHECK(task.job.logged("warn").empty());
}

TEST_CASE("if one cannot be started none is: those before it are ended, and who asked gets an error that is said") {
  Spawner task;
  CHECK(task.spawn({{2, kRunOn}, {1, "", {}, "/no/such/program"}}).starts_with("cmd=spawn_result rc=-1 "));
  CHECK(task.holds() == 1);  // until those have gone
  task.ends();
  CHECK_FALSE(task.spawns.table().has_begun());  // all tasks can still start again
  CHECK(task.job.logged("error") == Texts{"rank 7: spawn of /bin/sh: /no/such/program: No such file or directory"});
  CHECK(task.job.logged("warn").empty());  // their ends are no failure
  CHECK(task.job.raised().empty());
}

TEST_CASE("if the first cannot be started nothing is held") {
  struct Case {
    Program program;
    std::string why;
  };
  for (const Case& each :
       {Case{{1, "", {}, "/no/such/program"}, "/no/such/program: No such file or directory"},
        Case{{1, "", {}, "/"}, "/: Permission denied"},
        Case{{1, "exit 0", {{"wdir", "/no/such/directory"}}}, "/no/such/directory: No such file or directory"},
        Case{{1, "exit 0", {{"host", "localhost,there"}}},
             "info key host: 'there' is no host of the job, which has fake0"},
        Case{{0, "exit 0"}, "expected one process or more"}}) {
    Spawner task;
    CHECK(task.spawn({each.program}).starts_with("cmd=spawn_result rc=-1 "));
    CHECK(task.holds() == 0);
    REQUIRE(task.job.logged("error").size() == 1);
    CHECK_THAT(task.job.logged("error")[0], Catch::Matchers::ContainsSubstring(each.why));
    task.ends();
    // A later spawn is not affected.
    CHECK(task.spawn({{1, "exit 0"}}).starts_with("cmd=spawn_result rc=0 "));
    task.ends();
  }
}

TEST_CASE("info keys: a directory to run in, a path to look for the program in, this host") {
  Spawner task;
  fs::create_directory(task.directory / "bin");
  fs::create_symlink("/bin/sh", task.directory / "bin" / "own-shell");
  pmi::Entries info{{"path", "/no/such:" + (task.directory / "bin").native()},
                    {"wdir", task.directory.native()},
                    {"host", "fake0"},
                    {"soft", "ignored"}};
  CHECK(task.spawn({{1, "pwd > here", info, "own-shell"}}).starts_with("cmd=spawn_result rc=0 "));
  task.ends();
  CHECK(task.wrote("here") == fs::canonical(task.directory).native() + "\n");
}

TEST_CASE("they get each signal that the tasks get, in all groups") {
  Spawner task;
  std::string script =
      "exec 2> /dev/null; trap 'echo got > $OUT/got.'$0'.$PMI_RANK; exit 0' USR1; : > $OUT/runs.'$0'.$PMI_RANK; "
      "while :; do sleep 0.02; done";
  for (const std::string& group : {std::string("a"), std::string("b")}) {
    std::string text = script;
    for (std::size_t at; (at = text.find("'$0'")) != std::string::npos;) text.replace(at, 4, group);
    CHECK(task.spawn({{2, text}}).starts_with("cmd=spawn_result rc=0 "));
  }
  CHECK(task.holds() == 2);
  for (const char* name : {"runs.a.0", "runs.a.1", "runs.b.0", "runs.b.1"}) REQUIRE(task.comes(name));
  task.job.host.kill_tasks(SIGUSR1);
  task.ends();
  for (const char* name : {"got.a.0", "got.a.1", "got.b.0", "got.b.1"}) CHECK(task.wrote(name) == "got\n");
}

TEST_CASE("each group has a space of its own name, which tells the shell that began it") {
  Spawner task;
  for (const char* file : {"first", "second"}) {
    std::string ask = fmt::format(
        "printf 'cmd=get_my_kvsname\\n' >&$PMI_FD; read answer <&$PMI_FD; echo \"$answer\" > $OUT/{}; ", file);
    CHECK(task.spawn({{1, kJoinPmi + ask + kLeavePmi}}).starts_with("cmd=spawn_result rc=0 "));
    task.ends();
  }
  CHECK_THAT(task.wrote("first"), Catch::Matchers::ContainsSubstring(" kvsname=ƒ2_0_1"));
  CHECK_THAT(task.wrote("second"), Catch::Matchers::ContainsSubstring(" kvsname=ƒ2_0_2"));
}

TEST_CASE("one group's end is not another's") {
  Spawner task;
  CHECK(task.spawn({{1, kRunOn}}).starts_with("cmd=spawn_result rc=0 "));
  CHECK(task.spawn({{2, "exit 0"}}).starts_with("cmd=spawn_result rc=0 "));
  CHECK(task.holds() == 2);
  REQUIRE(task.job.host.serve([&] { return task.holds() == 1; }));
  REQUIRE(task.comes("runs.0"));
  task.job.host.kill_tasks(SIGKILL);
  task.ends();
}

TEST_CASE("an end that is no success is named, whether they use PMI or not, and does not end the job") {
  struct Case {
    std::string script;
    std::string said;
  };
  for (const Case& each :
       {Case{"exit 5", "rank 0 of spawn 1 on fake0 exited with code 5"},
        Case{"kill -SEGV $$", "rank 0 of spawn 1 on fake0 killed by SIGSEGV"},
        Case{kJoinPmi + kLeavePmi + "exit 6", "rank 0 of spawn 1 on fake0 exited with code 6"}}) {
    Spawner task;
    CHECK(task.spawn({{1, each.script}}).starts_with("cmd=spawn_result rc=0 "));
    task.ends();
    REQUIRE(task.job.logged("warn").size() == 1);
    CHECK(task.job.logged("warn")[0].starts_with(each.said));
    CHECK(task.job.raised().empty());
  }
  Spawner task;
  CHECK(task.spawn({{1, kJoinPmi + kLeavePmi + "exit 0"}}).starts_with("cmd=spawn_result rc=0 "));
  task.ends();
  CHECK(task.job.logged("warn").empty());
}

TEST_CASE("one that is lost ends the job as a task does, and is named by its group") {
  struct Case {
    std::string script;
    std::string raised;
  };
  for (const Case& each :
       {Case{kJoinPmi + "exit 0", "1: rank 0 of spawn 1 on fake0 exited with code 0 without PMI finalize!"},
        Case{kJoinPmi + "kill -KILL $$", "137: rank 0 of spawn 1 on fake0 killed by SIGKILL without PMI finalize!"},
        Case{kJoinPmi + kLeavePmi + "kill -KILL $$",
             "137: rank 0 of spawn 1 on fake0 killed by SIGKILL after PMI finalize!"},
        Case{"printf 'cmd=abort exitcode=256 message=why\\n' >&$PMI_FD; read answer <&$PMI_FD",
             "255: rank 0 of spawn 1 on fake0 called PMI_Abort with code 256: why"}}) {
    Spawner task;
    CHECK(task.spawn({{1, each.script}}).starts_with("cmd=spawn_result rc=0 "));
    REQUIRE(task.job.host.serve([&] { return !task.job.host.exceptions.empty(); }));
    CHECK(task.job.raised() == Texts{each.raised});
    task.job.host.kill_tasks(SIGKILL);
    task.ends();
    CHECK(task.job.logged("warn").empty());
  }
}

TEST_CASE("fault-tolerance: the others of a spawned group go on") {
  PmiOptions options;
  options.fault_tolerant = true;
  Spawner task(options);
  std::string script = kJoinPmi +
                       "if [ $PMI_RANK = 1 ]; then kill -KILL $$; fi; printf 'cmd=barrier_in\\n' >&$PMI_FD; "
                       "read answer <&$PMI_FD; printf 'cmd=get kvsname=ƒ2_0_1 key=PMI_dead_processes\\n' "
                       ">&$PMI_FD; read answer <&$PMI_FD; echo \"$answer\" > $OUT/dead; " +
                       kLeavePmi;
  CHECK(task.spawn({{2, script}}).starts_with("cmd=spawn_result rc=0 "));
  task.ends();
  CHECK(task.wrote("dead") == "cmd=get_result rc=0 value=1\n");
  CHECK(task.job.logged("warn") == Texts{"rank 1 of spawn 1 on fake0 is lost; the others go on"});
  CHECK(task.job.raised().empty());
  CHECK(task.job.dead(0) == "none");  // the process was not in that task's group
}

TEST_CASE("while the job is being ended nothing is spawned, and what runs ends without a line of its own") {
  Spawner task;
  CHECK(task.spawn({{2, kRunOn}}).starts_with("cmd=spawn_result rc=0 "));
  REQUIRE(task.comes("runs.0"));
  REQUIRE(task.comes("runs.1"));
  task.job.host.deaths.emplace_back("1 shell: the job is ended");
  CHECK(task.spawn({{1, kRunOn}}).starts_with("cmd=spawn_result rc=-1 "));
  CHECK(task.job.logged("error") == Texts{"rank 7: spawn of /bin/sh: the job is being ended"});
  CHECK(task.holds() == 1);
  task.job.host.kill_tasks(SIGTERM);
  task.ends();
  CHECK(task.job.logged("warn").empty());
}

TEST_CASE("a spawned process may spawn: its group is another one, and its output is the same task's") {
  Spawner task;
  std::vector<int> ranks;
  auto plugin = std::make_unique<plugin::Plugin>("output");
  plugin->on("output.open", [&](plugin::Call& call) {
    ranks.push_back(call.in["rank"].get<int>());
    return Result<void>();
  });
  task.job.host.stack().push(std::move(plugin));
  std::string inner = blocks({{1, "echo $PMI_RANK > $OUT/inner"}});
  for (std::size_t at = 0; (at = inner.find('\n', at)) != std::string::npos; at += 2) inner.replace(at, 1, "\\n");
  for (std::size_t at = 0; (at = inner.find('$', at)) != std::string::npos; at += 2) inner.replace(at, 1, "\\$");
  std::string outer = kJoinPmi + "printf \"" + inner +
                      "\" >&$PMI_FD; read answer <&$PMI_FD; echo \"$answer\" > $OUT/outer; " + kLeavePmi;
  CHECK(task.spawn({{1, outer}}).starts_with("cmd=spawn_result rc=0 "));
  task.ends();
  CHECK(task.wrote("outer") == "cmd=spawn_result rc=0 errcodes=0\n");
  CHECK(task.wrote("inner") == "0\n");
  CHECK(ranks == std::vector<int>{7, 7});
}

TEST_CASE("what they write goes where the output's plugin says") {
  Spawner task;
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  UniqueFd reader(pipe[0]);
  auto plugin = std::make_unique<plugin::Plugin>("output");
  plugin->on("output.open", [&](plugin::Call& call) {
    call.out["stdout"] = pipe[1];  // is taken over
    return Result<void>();
  });
  task.job.host.stack().push(std::move(plugin));
  CHECK(task.spawn({{1, "echo hello"}}).starts_with("cmd=spawn_result rc=0 "));
  task.ends();
  char text[16];
  REQUIRE(::read(reader.get(), text, sizeof text) == 6);
  CHECK(std::string_view(text, 6) == "hello\n");
  CHECK(::read(reader.get(), text, sizeof text) == 0);  // no other process has the pipe
}

// Where the processes of a spawn run, and the shells' messages about it.

namespace {

pmi::SpawnProgram program(std::uint32_t processes, pmi::Entries info = {}) {
  return {processes, {"program"}, std::move(info)};
}

// "0 0 1" or the error. Shells 0 to 3, on hosts a to c and c again, have 1, 0, 2 and no room.
std::string placed(std::vector<pmi::SpawnProgram> programs, std::uint32_t asker) {
  std::vector<SpawnRoom> rooms{{0, "a", 1}, {1, "b", 0}, {2, "c", 2}, {3, "c", std::nullopt}};
  auto places = place_spawn({std::move(programs), {}}, rooms, asker);
  return places ? fmt::format("{}", fmt::join(*places, " ")) : places.error().message;
}

SpawnOrder some_order() {
  SpawnOrder order;
  order.start = 2;
  order.shell = 3;
  order.request = 4;
  order.task = 5;
  order.spawner = "nacre_1";
  order.setup.limits.push_back({RLIMIT_CORE, {0, RLIM_INFINITY}});
  order.setup.settings.of<task::OomScore>() = "300";
  order.setup.settings.of<task::Scheduler>() = 3;
  order.setup.new_session = true;
  order.spawn.preput = {{"port", std::string("a\0b", 3)}, {"k", ""}};
  order.spawn.programs = {{2, {"a", "", "x y"}, {{"wdir", "/tmp"}, {"host", "a,b"}}}, {0, {"b"}, {}}};
  return order;
}

// Two nodes with two cores each, and a task on each; this is shell 1.
struct Rounds {
  Rounds() {
    rounds.begin(plugins::PmiStart::of_job(host), true);
    heard = host.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == SpawnRounds::kTopic) rounds.announced(bytes);
    });
  }
  void spawn(std::uint32_t processes) {
    SpawnOrder order;
    order.spawn.programs = {program(processes)};
    REQUIRE(rounds.announce(order));
  }

  kit::FakeHost host{kit::jobspec_of(2), kit::fake_nodes(2, 2), 1};
  std::vector<std::string> said;
  std::string elsewhere = "+";  // the other shell's message about its start
  SpawnRounds rounds{host,
                     {[this] {
                        host.gathers_elsewhere = {{"1", value::Idset::range(0, 0)}};
                        return std::optional<std::uint32_t>(1);
                      },
                      [this](const SpawnRound& round) -> Result<void> {
                        said.push_back(fmt::format("start {} of {}", fmt::join(round.places, " "), round.name()));
                        host.gathers_elsewhere = {};
                        if (!elsewhere.empty()) host.gathers_elsewhere[elsewhere] = value::Idset::range(0, 0);
                        return {};
                      },
                      [this](const SpawnRound&, const Result<void>& outcome) {
                        said.push_back(outcome ? "runs" : outcome.error().message);
                      }}};
  plugin::Registration heard;
};

}  // namespace

TEST_CASE(
    "the universe of spawned processes is they, and as many as have cores free beside them; none if there are "
    "none") {
  const std::vector<SpawnRoom> rooms{{0, "a", 1}, {1, "b", 0}, {2, "c", 2}, {3, "c", std::nullopt}};
  CHECK(plugins::universe_of_spawn({0, 2}, rooms) == 3U);
  CHECK(plugins::universe_of_spawn({1, 1}, rooms) == 5U);
  CHECK_FALSE(plugins::universe_of_spawn({0, 2, 2}, rooms));
  CHECK_FALSE(plugins::universe_of_spawn({0, 0, 1, 2, 2, 2}, rooms));
}

TEST_CASE("places: cores that are free, those of the asking shell first, then of those behind it, in turn") {
  CHECK(placed({program(1)}, 0) == "0");
  CHECK(placed({program(3)}, 0) == "0 2 2");
  CHECK(placed({program(3)}, 2) == "2 2 0");
  CHECK(placed({program(1)}, 1) == "2");
}

TEST_CASE("places: what finds no free core is spread evenly over the shells that take processes") {
  CHECK(placed({program(6)}, 0) == "0 0 1 2 2 2");
  CHECK(placed({program(7)}, 1) == "1 1 2 2 2 0 0");
}

TEST_CASE("places: each program is placed behind the one before it") {
  CHECK(placed({program(1), program(2), program(1)}, 0) == "0 2 2 0");
}

TEST_CASE("places: the ranks that are on a shell") {
  CHECK(plugins::ranks_placed_on({0, 2, 2, 0, 0}, 0).str() == "0,3-4");
  CHECK(plugins::ranks_placed_on({0, 2, 2, 0, 0}, 2).str() == "1-2");
  CHECK(plugins::ranks_placed_on({0, 2, 2, 0, 0}, 1).empty());
}

TEST_CASE("places: hosts that a program names, also where no core is free") {
  CHECK(placed({program(2, {{"host", "b"}})}, 0) == "1 1");
  CHECK(placed({program(2, {{"hosts", "b, a"}})}, 2) == "1 0");
  CHECK(placed({program(1, {{"host", "localhost"}})}, 1) == "1");
  CHECK(placed({program(3, {{"host", "c"}})}, 0) == "2 2 2");
  CHECK(placed({program(1, {{"host", "a,d"}})}, 0) == "info key host: 'd' is no host of the job, which has a,b,c");
  CHECK(placed({program(0)}, 0) == "expected one process or more");
  auto none = place_spawn({{program(1)}, {}}, {{0, "a", std::nullopt}}, 0);
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "'program': no shell that may run it takes processes any more");
}

TEST_CASE("an order to spawn comes out of its bytes as it was") {
  SpawnOrder order = some_order();
  auto same = SpawnOrder::decode(order.encode());
  REQUIRE(same);
  CHECK(same->encode() == order.encode());
  CHECK(same->start == 2);
  CHECK(same->shell == 3);
  CHECK(same->request == 4);
  CHECK(same->task == 5);
  CHECK(same->spawner == "nacre_1");
  CHECK_FALSE(same->by_pmix());
  REQUIRE(same->setup.limits.size() == 1);
  CHECK(same->setup.limits[0].resource == RLIMIT_CORE);
  CHECK(same->setup.limits[0].value.rlim_max == RLIM_INFINITY);
  CHECK(same->setup.settings.of<task::OomScore>() == "300");
  CHECK(same->setup.settings.of<task::Scheduler>() == 3);
  CHECK(same->setup.new_session);
  CHECK(same->spawn.preput == order.spawn.preput);
  REQUIRE(same->spawn.programs.size() == 2);
  CHECK(same->spawn.programs[0].argv == order.spawn.programs[0].argv);
  CHECK(same->spawn.programs[0].info == order.spawn.programs[0].info);
  CHECK(same->spawn.programs[1].processes == 0);
}

TEST_CASE("the bytes of an order to spawn") {
  SpawnOrder order = some_order();
  pmi::Entries own{{"start", "2"}, {"shell", "3"}, {"request", "4"}, {"task", "5"}, {"spawner", "nacre_1"}};
  const pmi::Entries rest{{fmt::format("limit {}", RLIMIT_CORE), fmt::format("0 {}", RLIM_INFINITY)},
                          {"oom", "300"},
                          {"scheduler", "3"},
                          {"session", ""},
                          {"preput port", std::string("a\0b", 3)},
                          {"preput k", ""},
                          {"program", "2"},
                          {"argument", "a"},
                          {"argument", ""},
                          {"argument", "x y"},
                          {"info wdir", "/tmp"},
                          {"info host", "a,b"},
                          {"program", "0"},
                          {"argument", "b"}};
  auto bytes_of = [&] {
    pmi::Entries all = own;
    all.insert(all.end(), rest.begin(), rest.end());
    return pmi::encode_entries(all);
  };
  CHECK(order.encode() == bytes_of());
  order.library = plugins::kPmixLibrary;
  order.client = 6;
  own.insert(own.end(), {{"library", "pmix"}, {"client", "6"}});
  CHECK(order.encode() == bytes_of());
  task::ChildSetup copy;
  plugins::copy_common_setup(order.setup, copy);
  SpawnOrder same = order;
  same.setup = copy;
  CHECK(same.encode() == order.encode());
}

TEST_CASE("an order to spawn by PMIx has the library, and the rank of the process") {
  SpawnOrder order = some_order();
  order.library = plugins::kPmixLibrary;
  order.client = 6;
  auto same = SpawnOrder::decode(order.encode());
  REQUIRE(same);
  CHECK(same->by_pmix());
  CHECK(same->client == 6);
}

TEST_CASE("bytes that are no order to spawn are refused") {
  const pmi::Entries good{{"start", "1"}, {"program", "1"}, {"argument", "a"}};
  REQUIRE(SpawnOrder::decode(pmi::encode_entries(good)));
  for (const pmi::Entries& wrong :
       std::vector<pmi::Entries>{{},
                                 {{"program", "1"}},
                                 {{"argument", "a"}},
                                 {{"program", "5000"}, {"argument", "a"}},
                                 {{"program", "-1"}, {"argument", "a"}},
                                 {{"limit 999", "0 0"}, {"program", "1"}, {"argument", "a"}},
                                 {{"limit 1", "0"}, {"program", "1"}, {"argument", "a"}},
                                 {{"start", "x"}, {"program", "1"}, {"argument", "a"}},
                                 {{"library", "other"}, {"program", "1"}, {"argument", "a"}},
                                 {{"client", "x"}, {"program", "1"}, {"argument", "a"}},
                                 {{"color", "red"}, {"program", "1"}, {"argument", "a"}}}) {
    CHECK_FALSE(SpawnOrder::decode(pmi::encode_entries(wrong)));
  }
  std::string bytes = some_order().encode();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    auto cut = SpawnOrder::decode(std::string_view(bytes).substr(0, size));
    if (cut) CHECK(cut->spawn.programs.size() < 3);
  }
}

TEST_CASE("rounds: all shells say what room they have, start what is theirs, and say whether they could") {
  Rounds job;
  job.spawn(2);
  job.spawn(1);
  using Texts = std::vector<std::string>;
  CHECK(job.said == Texts{"start 1 0 of pmi.spawn.1.1", "runs", "start 1 of pmi.spawn.1.2", "runs"});
  CHECK(job.host.gathers.at("pmi.spawn.1.1.room") == "1");
  CHECK(job.host.gathers.at("pmi.spawn.1.1.started") == "+");
  CHECK(job.host.gathered_up_to == 1);
}

TEST_CASE("rounds: what another shell cannot start, or a shell that is lost meanwhile, is the same error for all") {
  Rounds job;
  job.elsewhere = "!2 /no/such: No such file or directory";
  job.spawn(2);
  CHECK(job.said.back() == "/no/such: No such file or directory on fake0");
  job.elsewhere = "";
  job.spawn(2);
  CHECK(job.said.back() == "shell 0 on fake0 is lost");
  job.spawn(1);  // the group has no process there
  CHECK(job.said.back() == "runs");
}

TEST_CASE("rounds: requests of an earlier start of the tasks are not performed any more") {
  Rounds job;
  SpawnOrder order;
  order.start = 1;
  order.spawn.programs = {program(1)};
  std::string bytes = order.encode();
  plugins::PmiStart again = plugins::PmiStart::of_job(job.host);
  again.number = 2;
  job.rounds.begin(again, true);
  job.host.announced(SpawnRounds::kTopic, bytes);
  CHECK(job.said.empty());
  job.spawn(1);
  CHECK(job.said.front() == "start 1 of pmi.spawn.2.1");
}
