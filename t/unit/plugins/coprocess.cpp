// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
namespace fs = std::filesystem;

namespace {

// The plugin on a host, and a directory for its files.
struct Coprocesses {
  Coprocesses() : host(1) { open(); }
  explicit Coprocesses(std::uint32_t rank) : host(kit::jobspec_of(2), kit::fake_nodes(2, 1), rank) { open(); }
  // Ends leftovers of a failed test.
  ~Coprocesses() {
    for (pid_t pid : event::Children::descendants()) ::kill(pid, SIGKILL);
  }

  void open() {
    host.environment().set("PATH", "/usr/bin:/bin");
    host.stack().push(plugins::make_coprocess(host));
  }

  // A coprocess that /bin/sh runs, with its output in the file `name`.
  void want(const std::string& name, const std::string& script, const Json& more = Json::object()) {
    Json entry{{"command", script}, {"output", (directory / name).native()}};
    entry.update(more);
    host.options().set("coprocess." + name, entry);
  }

  std::string call(std::string_view topic) {
    auto called = host.call(topic);
    return called ? "ok" : called.error().message;
  }
  void launch() {
    REQUIRE(call("shell.init") == "ok");
    REQUIRE(call("shell.post-init") == "ok");
  }
  void finish() {
    REQUIRE(call("shell.finish") == "ok");
    REQUIRE(serve([this] { return host.holds.empty(); }));
    CHECK_FALSE(host.next_timer());
    CHECK(event::Children::descendants().empty());
  }

  [[nodiscard]] std::string said(const std::string& name) const {
    return nacre::read_file(directory / name).value_or("(no file)");
  }
  bool serve(const std::function<bool()>& done) { return host.serve(done); }
  bool says(const std::string& name, std::string_view text) {
    return serve([&] { return said(name).find(text) != std::string::npos; });
  }
  // The messages at a level, process ids as PID.
  std::vector<std::string> logged(std::string_view level) {
    std::vector<std::string> out;
    std::string start = fmt::format("{} coprocess: ", level);
    for (std::string text : host.logged) {
      if (!text.starts_with(start)) continue;
      text.erase(0, start.size());
      static constexpr std::string_view kBefore = "process ";
      std::size_t at = 0;
      while ((at = text.find(kBefore, at)) != std::string::npos) {
        at += kBefore.size();
        std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
        text.replace(at, end - at, "PID");
      }
      out.push_back(text);
    }
    return out;
  }

  kit::TemporaryFolder folder;
  fs::path directory = folder.path();
  kit::FakeHost host;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE_METHOD(Coprocesses, "without the option there is nothing") {
  launch();
  finish();
  CHECK(host.logged.empty());
}

TEST_CASE_METHOD(Coprocesses,
                 "a coprocess runs from before the tasks until after them, and both its streams are kept") {
  want("mon", "trap 'echo bye; exit 0' TERM; echo out; echo err >&2; while :; do :; done");
  launch();
  CHECK(host.holds == std::map<std::string, int>{{"coprocess", 1}});
  REQUIRE(says("mon", "err\n"));
  finish();
  CHECK(said("mon") == "out\nerr\nbye\n");
  CHECK(logged("debug") == Lines{"mon (process PID): launched, its output goes to " + (directory / "mon").native(),
                                 "SIGTERM to mon (process PID); waiting up to 10s before SIGKILL",
                                 "mon (process PID) exited with code 0"});
  CHECK(logged("warn").empty());
}

TEST_CASE_METHOD(Coprocesses, "nothing starts before shell.post-init, so that a plan starts nothing") {
  want("mon", "echo text");
  REQUIRE(call("shell.init") == "ok");
  CHECK(event::Children::descendants().empty());
  CHECK_FALSE(fs::exists(directory / "mon"));
}

TEST_CASE_METHOD(Coprocesses, "a coprocess has the job's environment, no input, and a process group of its own") {
  host.environment().set("GIVEN", "a b");
  want("mon",
       "echo \"$GIVEN\"; cat; read -r pid comm state ppid pgrp rest </proc/$$/stat; [ $pgrp = $$ ] && echo own");
  launch();
  REQUIRE(host.run_loop());
  CHECK(said("mon") == "a b\nown\n");
}

TEST_CASE_METHOD(Coprocesses, "tags are rendered in the command and in the name of the file") {
  Json entry{{"command", {"echo", "id={{id}}", "{{node.name}}"}},
             {"output", (directory / "{{id}}-{{node.id}}").native()}};
  host.options().set("coprocess.mon", entry);
  launch();
  REQUIRE(host.run_loop());
  CHECK(said(host.job().id.f58() + "-0") == fmt::format("id={} fake0\n", host.job().id.f58()));
}

TEST_CASE_METHOD(Coprocesses,
                 "without a name for it, the output is in coproc-NAME-ID.log in the working directory") {
  fs::path before = fs::current_path();
  fs::current_path(directory);
  host.options().set("coprocess.mon", Json{{"command", {"echo", "text"}}});
  launch();
  fs::current_path(before);
  REQUIRE(host.run_loop());
  CHECK(said(fmt::format("coproc-mon-{}.log", host.job().id.f58())) == "text\n");
}

TEST_CASE_METHOD(Coprocesses, "a file that is there is emptied; a new one's mode follows the umask") {
  REQUIRE(::close(::creat((directory / "old").c_str(), 0600)) == 0);
  fs::resize_file(directory / "old", 100);
  want("old", "echo new");
  want("new", "echo new");
  mode_t before = ::umask(007);
  launch();
  ::umask(before);
  REQUIRE(host.run_loop());
  CHECK(said("old") == "new\n");
  CHECK(fs::status(directory / "new").permissions() == fs::perms(0660));
}

TEST_CASE_METHOD(Coprocesses, "several coprocesses run side by side, and may write to one file") {
  want("a", "echo A; exec sleep 1000");
  want("b", "echo B; exec sleep 1000", {{"output", (directory / "a").native()}});
  launch();
  CHECK(host.holds["coprocess"] == 2);
  REQUIRE(says("a", "A\n"));
  REQUIRE(says("a", "B\n"));
  finish();
  CHECK(said("a").size() == 4);
}

TEST_CASE_METHOD(Coprocesses, "one that ends early is a line in the log, a warning if it has failed") {
  want("good", "exit 0");
  want("bad", "exit 3");
  want("ugly", "kill -SEGV $$");
  launch();
  REQUIRE(host.run_loop());
  CHECK(host.holds.empty());
  CHECK(host.exceptions.empty());
  Lines warned = logged("warn");
  std::sort(warned.begin(), warned.end());
  CHECK(warned == Lines{"bad (process PID) exited with code 3 before the tasks ended",
                        "ugly (process PID) killed by SIGSEGV before the tasks ended"});
  CHECK(logged("debug").back() == "good (process PID) exited with code 0 before the tasks ended");
  finish();
  CHECK(logged("warn").size() == 2);
}

TEST_CASE_METHOD(Coprocesses, "one that ignores SIGTERM is killed, with its children, after the time it is given") {
  host.options().set("coprocess-kill-timeout", "50ms");
  fs::path alive = directory / "alive";
  REQUIRE(::mkfifo(alive.c_str(), 0600) == 0);
  UniqueFd reader(::open(alive.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  want("deaf", fmt::format("trap '' TERM; exec 3>{}; sleep 1000 & echo ready; while :; do sleep 1000; done",
                           alive.native()));
  launch();
  REQUIRE(says("deaf", "ready"));
  REQUIRE(call("shell.finish") == "ok");
  REQUIRE(host.run_loop());
  CHECK(host.holds.empty());
  CHECK(logged("warn") == Lines{"deaf (process PID) still runs 50ms after SIGTERM: sending SIGKILL"});
  CHECK(logged("debug").back() == "deaf (process PID) killed by SIGKILL");
  pollfd last_writer{reader.get(), 0, 0};
  CHECK(::poll(&last_writer, 1, 60'000) == 1);
}

TEST_CASE_METHOD(Coprocesses, "the time it is given is 10 s, or what the option says; infinity is for ever") {
  const std::vector<std::pair<Json, double>> times{{nullptr, 10}, {0.5, 0.5}, {"2m", 120}};
  for (const auto& [option, seconds] : times) {
    Coprocesses other;
    if (!option.is_null()) other.host.options().set("coprocess-kill-timeout", option);
    other.want("deaf", "trap '' TERM; echo ready; while :; do sleep 1000; done");
    other.launch();
    REQUIRE(other.says("deaf", "ready"));
    REQUIRE(other.call("shell.finish") == "ok");
    auto next = other.host.next_timer();
    REQUIRE(next);
    CHECK(next->count() == seconds);
  }
  host.options().set("coprocess-kill-timeout", "infinity");
  want("deaf", "trap '' TERM; echo ready; while :; do sleep 1000; done");
  launch();
  REQUIRE(says("deaf", "ready"));
  REQUIRE(call("shell.finish") == "ok");
  CHECK_FALSE(host.next_timer());
}

TEST_CASE_METHOD(Coprocesses, "one that is stopped is woken to take its SIGTERM") {
  want("still", "echo ready; kill -STOP $$; echo awake");
  launch();
  REQUIRE(says("still", "ready"));
  finish();
  CHECK(logged("warn").empty());
  CHECK(logged("debug").back() == "still (process PID) killed by SIGTERM");
}

TEST_CASE_METHOD(Coprocesses, "a coprocess runs on the shells of its ranks only") {
  want("here", "echo here", {{"ranks", "1"}});
  want("there", "echo there", {{"ranks", "0"}});
  Coprocesses second(1);
  second.host.options() = host.options();
  second.launch();
  REQUIRE(second.host.run_loop());
  CHECK(said("here") == "here\n");
  CHECK(said("there") == "(no file)");
}

TEST_CASE_METHOD(Coprocesses, "ranks that the job has no shells for are passed over, if there is one that it has") {
  want("mon", "echo text", {{"ranks", "0-7"}});
  launch();
  REQUIRE(host.run_loop());
  CHECK(said("mon") == "text\n");
  want("mon", "echo text", {{"ranks", "1,3"}});
  CHECK(call("shell.init") ==
        "plugin 'coprocess': shell.init: coprocess.mon.ranks: the job has no shell 1,3, but 0 only");
  Coprocesses two(0);
  two.want("mon", "echo", {{"ranks", 2}});
  CHECK(two.call("shell.init").ends_with("coprocess.mon.ranks: the job has no shell 2, but 0-1"));
}

TEST_CASE("a file that several shells share is not emptied, one of this node is") {
  Coprocesses second(1);
  second.want("shared", "echo text");
  second.want("own", "echo text", {{"output", (second.directory / "own-{{node.id}}").native()}});
  for (const char* name : {"shared", "own-1"}) {
    UniqueFd file(::creat((second.directory / name).c_str(), 0600));
    REQUIRE(write_all(file.get(), "old\n") == 0);
  }
  second.launch();
  REQUIRE(second.host.run_loop());
  CHECK(second.said("shared") == "old\ntext\n");
  CHECK(second.said("own-1") == "text\n");
}

TEST_CASE_METHOD(Coprocesses, "a program that cannot be started is an error before any task, and named") {
  want("a", "exec sleep 1000");
  host.options().set("coprocess.mon", Json{{"command", {"no-such-program", "-x"}}, {"output", "/dev/null"}});
  REQUIRE(call("shell.init") == "ok");
  CHECK(call("shell.post-init") ==
        "plugin 'coprocess': shell.post-init: coprocess.mon.command: no-such-program: No such file or directory "
        "(PATH: /usr/bin:/bin)");
  for (pid_t pid : event::Children::descendants()) ::kill(pid, SIGTERM);  // as the shell does
  REQUIRE(host.run_loop());
  CHECK(logged("debug").back() == "a (process PID) killed by SIGTERM");
  CHECK(logged("warn").empty());
}

TEST_CASE_METHOD(Coprocesses, "a file that cannot be written is an error, and no program is started") {
  want("a", "echo text");
  std::string path = (directory / "missing/file").native();
  want("b", "echo text", {{"output", path}});
  REQUIRE(call("shell.init") == "ok");
  CHECK(call("shell.post-init") == "plugin 'coprocess': shell.post-init: coprocess.b.output: cannot write " + path +
                                       ": No such file or directory");
  CHECK(event::Children::descendants().empty());
  Coprocesses other;
  other.want("b", "echo text", {{"output", directory.native()}});
  REQUIRE(other.call("shell.init") == "ok");
  CHECK(
      other.call("shell.post-init").ends_with("b.output: cannot write " + directory.native() + ": Is a directory"));
}

TEST_CASE_METHOD(Coprocesses,
                 "a pipe without a reader is refused, and not waited for; one with a reader is written") {
  REQUIRE(::mkfifo((directory / "pipe").c_str(), 0600) == 0);
  want("pipe", "sed -n 's/^flags:[^0-9]*//p' /proc/self/fdinfo/1");
  REQUIRE(call("shell.init") == "ok");
  CHECK(call("shell.post-init").ends_with("/pipe: No such device or address"));
  UniqueFd reader(::open((directory / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Coprocesses other;
  other.host.options() = host.options();
  other.launch();
  REQUIRE(other.host.run_loop());
  char flags[20] = {};
  REQUIRE(::read(reader.get(), flags, sizeof flags - 1) > 0);
  CHECK((std::strtol(flags, nullptr, 8) & (O_NONBLOCK | O_APPEND)) == O_APPEND);  // the flags that a program
                                                                                  // expects
}

TEST_CASE_METHOD(Coprocesses, "a plugin of the same name that takes its place does not hang the job") {
  want("mon", "exec sleep 1000");
  launch();
  REQUIRE(host.holds["coprocess"] == 1);
  host.stack().push(std::make_unique<plugin::Plugin>("coprocess"));
  CHECK(host.holds.empty());
}

TEST_CASE_METHOD(Coprocesses, "options that cannot be meant are errors at shell.init") {
  host.options().set("coprocess", "nope");
  CHECK(call("shell.init")
            .starts_with("plugin 'coprocess': shell.init: coprocess: expected an object of coprocesses"));
  host.options().set("coprocess", Json::parse(R"({"mon": {"command": ["a"], "rank": 1}})"));
  CHECK(call("shell.init") ==
        "plugin 'coprocess': shell.init: coprocess.mon.rank: unknown key; known: command, output, ranks");
  host.options().unset("coprocess");
  host.options().set("coprocess-kill-timeout", "notfsd");
  CHECK(
      call("shell.init").starts_with("plugin 'coprocess': shell.init: coprocess-kill-timeout: duration 'notfsd'"));
}
