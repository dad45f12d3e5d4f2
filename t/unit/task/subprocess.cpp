// SPDX-License-Identifier: Apache-2.0
#include "task/subprocess.hpp"

#include <sys/wait.h>

#include "catch.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

struct SubprocessFixture {
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::unique_ptr<event::Children> children = event::Children::create(*loop, {}).value();
  std::unique_ptr<Subprocess> process;
  std::map<std::string, std::string> said;
  int exits = 0;
  int completes = 0;

  SubprocessFixture() { std::signal(SIGPIPE, SIG_IGN); }

  tl::expected<std::unique_ptr<Subprocess>, SpawnError> try_start(const std::string& script,
                                                                  Subprocess::Options options) {
    Command command{{"sh", "-c", script}, {}, {}};
    command.env.set("PATH", "/usr/bin:/bin");
    Subprocess::Callbacks callbacks;
    callbacks.on_ready = [this](const std::string& name) { said[name] += process->stream(name)->read(); };
    callbacks.on_exit = [this] { ++exits; };
    callbacks.on_complete = [this] { ++completes; };
    return Subprocess::start(*loop, *children, std::move(command), std::move(options), std::move(callbacks));
  }
  void start(const std::string& script, Subprocess::Options options = {}) {
    auto started = try_start(script, std::move(options));
    REQUIRE(started);
    process = std::move(*started);
  }
};

}  // namespace

TEST_CASE_METHOD(SubprocessFixture, "a subprocess's output and status arrive; complete comes last") {
  start("echo out; echo err >&2; exit 3");
  CHECK_FALSE(process->exited());
  loop->run();
  CHECK(said == std::map<std::string, std::string>{{"stdout", "out\n"}, {"stderr", "err\n"}});
  CHECK(process->status().exit_code() == 3);
  CHECK(exits == 1);
  CHECK(completes == 1);
  CHECK(process->complete());
  CHECK(process->kill(SIGTERM).error().code == ESRCH);
}

TEST_CASE_METHOD(SubprocessFixture, "complete waits for output that comes after the exit") {
  start("exec 9<&0; (read line <&9; echo late) & exit 0", {.streams = {"stdin", "stdout"}});
  loop->run_until([this] { return exits == 1; });
  CHECK(completes == 0);
  REQUIRE(process->stream("stdin")->write("go\n"));
  loop->run();
  CHECK(said["stdout"] == "late\n");
  CHECK(completes == 1);
}

TEST_CASE_METHOD(SubprocessFixture, "stdin is written and closed") {
  start("cat", {.streams = {"stdin", "stdout"}});
  REQUIRE(process->stream("stdin")->write("round trip\n"));
  process->stream("stdin")->close();
  loop->run();
  CHECK(said["stdout"] == "round trip\n");
  CHECK(process->status().exit_code() == 0);
}

TEST_CASE_METHOD(SubprocessFixture, "a channel is a socket whose number the process finds by its name") {
  start("read word <&$LINK; echo \"got $word\" >&$LINK", {.streams = {"LINK"}});
  REQUIRE(process->stream("LINK")->write("ping\n"));
  loop->run();
  CHECK(said["LINK"] == "got ping\n");
  CHECK(completes == 1);
}

TEST_CASE_METHOD(SubprocessFixture, "what is no stream is empty, unless the shell's own is passed on") {
  start("[ \"$(readlink /proc/self/fd/2)\" = /dev/null ] && [ \"$(readlink /proc/self/fd/0)\" = /dev/null ]",
        {.streams = {"stdout"}});
  loop->run();
  CHECK(process->status().exit_code() == 0);
  start("[ \"$(readlink /proc/self/fd/2)\" = /dev/null ]", {.streams = {}, .inherit_stdio = true});
  loop->run();
  CHECK(process->status().exit_code() == 1);
}

TEST_CASE_METHOD(SubprocessFixture, "a signal reaches the whole process group") {
  start("sleep 600 & echo ready; wait", {.streams = {"stdout"}});
  loop->run_until([this] { return said["stdout"] == "ready\n"; });
  REQUIRE(process->kill(SIGKILL));
  loop->run();  // the sleep also held stdout
  CHECK(process->status().signal() == SIGKILL);
  CHECK(completes == 1);
}

TEST_CASE_METHOD(SubprocessFixture,
                 "a command that is not there, and two streams of one name, are errors of the start") {
  Command command{{"/nonexistent/command"}, {}, {}};
  auto started = Subprocess::start(*loop, *children, std::move(command), {}, {});
  REQUIRE_FALSE(started);
  CHECK(started.error().exit_code == 127);
  CHECK(started.error().error.code == ENOENT);
  CHECK(try_start("true", {.streams = {"A", "A"}}).error().error.code == EEXIST);
  CHECK(try_start("true", {.streams = {"A=B"}}).error().error.code == EINVAL);
  CHECK(children->watched() == 0);
}

TEST_CASE_METHOD(SubprocessFixture, "a subprocess may be destroyed when it is complete, and while it runs") {
  Command command{{"/bin/echo", "x"}, {}, {}};
  Subprocess::Callbacks callbacks;
  callbacks.on_complete = [this] { process.reset(); };
  process = *Subprocess::start(*loop, *children, std::move(command), {}, std::move(callbacks));
  loop->run();
  CHECK(process == nullptr);
  start("read line", {.streams = {"stdin"}});
  pid_t pid = process->pid();
  process.reset();  // its stdin ends, and so does the process; no callback is called
  CHECK(::waitpid(pid, nullptr, 0) == pid);
  CHECK(children->watched() == 0);
  CHECK(exits == 0);
}

TEST_CASE_METHOD(SubprocessFixture,
                 "a subprocess on a terminal: it is its input and output, and its size can change") {
  Subprocess::Options options;
  options.pty = winsize{33, 99, 0, 0};
  // The process must be in read: a signal that comes just before the read blocks is handled only after it has read
  // something.
  start(
      "trap 'stty size; seen=1' WINCH; [ -t 0 ] && [ -t 2 ] && stty size >&2; until [ $seen ]; do sleep 0.01; "
      "done; "
      "read -r line; exit 7",
      std::move(options));
  auto has = [this](std::string_view text) { return said["pty"].find(text) != std::string::npos; };
  loop->run_until([&] { return has("33 99\r\n"); });
  REQUIRE(process->pty()->set_size(winsize{11, 22, 0, 0}));
  loop->run_until([&] { return has("11 22\r\n"); });
  REQUIRE(process->stream("pty")->write("key\r"));
  loop->run();
  CHECK(process->status().exit_code() == 7);
  CHECK(completes == 1);
  CHECK(process->stream("pty")->taken() == 4);
}

TEST_CASE_METHOD(SubprocessFixture, "a subprocess whose terminal is taken away gets SIGHUP") {
  Subprocess::Options options;
  options.pty = winsize{24, 80, 0, 0};
  start("trap 'exit 4' HUP; echo up; while :; do sleep 0.01; done", std::move(options));
  loop->run_until([this] { return said["pty"] == "up\r\n"; });
  process->hang_up();
  CHECK(process->pty()->master() == -1);
  CHECK(process->stream("pty")->write("x").error().code == EPIPE);
  loop->run();
  CHECK(process->status().exit_code() == 4);
  CHECK(completes == 1);
}
