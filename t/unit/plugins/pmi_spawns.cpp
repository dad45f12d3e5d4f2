// SPDX-License-Identifier: Apache-2.0
//
// PmiSpawns and SpawnedGroup, with real processes: clients ask for them over PMI.
#include "plugins/pmi/spawns.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "pmi_clients.hpp"

using namespace nacre;
using plugins::PmiClients;
using plugins::PmiOptions;
using plugins::PmiSpawns;
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
    std::string made = "/tmp/spawns-XXXXXX";
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    directory = made;
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
    fs::remove_all(directory);
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

  fs::path directory;
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
