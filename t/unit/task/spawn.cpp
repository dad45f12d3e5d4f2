// SPDX-License-Identifier: Apache-2.0
//
// The ways to start: shared memory (vfork), a hook (fork), traced; and many at once.
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "run.hpp"
#include "task/spawn.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

// Sends descriptor 1 of `what` to a file, for starts that are not awaited one by one.
struct Caught {
  Command what;
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  pid_t pid = 0;
  std::string error;

  explicit Caught(Command command) : what(std::move(command)) { what.setup.fds.push_back({1, pipe.write.get()}); }
  void start() {
    auto spawned = Spawner().spawn(what);
    if (spawned) pid = spawned->pid;
    if (!spawned) error = spawned.error().error.message;
    pipe.write.reset();
  }
};

void say(const char* text) {
  [[maybe_unused]] ssize_t written = ::write(STDOUT_FILENO, text, std::string_view(text).size());
}

}  // namespace

TEST_CASE("who ends with its parent ends with the thread that has started it") {
  Caught task(command({"sleep", "1000"}));
  task.what.setup.ends_with_parent = true;
  std::thread([&] { task.start(); }).join();
  REQUIRE(task.pid > 0);
  int status = 0;
  REQUIRE(::waitpid(task.pid, &status, 0) == task.pid);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

// As an ordinary user: root may open it at any time.
TEST_CASE("what a task has read and written can be read when it has ended, if its command asks for that") {
  bool hooked = GENERATE(false, true);
  Command what = sh("echo 12345 >/dev/null; exit 3");
  Spawner::ChildHook hook;
  if (hooked) hook = [] { return true; };
  auto plain = Spawner().spawn(what, hook);
  REQUIRE(plain);
  CHECK_FALSE(plain->io);
  wait_for(plain->pid);
  what.setup.opens_io = true;
  what.setup.fds.push_back({3, ::open("/dev/null", O_RDONLY | O_CLOEXEC)});  // where the socket might be
  auto spawned = Spawner().spawn(what, hook);
  REQUIRE(spawned);
  REQUIRE(spawned->io);
  CHECK((::fcntl(spawned->io.get(), F_GETFD) & FD_CLOEXEC) != 0);
  siginfo_t end{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(spawned->pid), &end, WEXITED | WNOWAIT) == 0);
  std::string text = read_all(spawned->io.get());
  std::size_t at = text.find("\nwchar: ");
  REQUIRE(at != std::string::npos);
  int written = std::stoi(text.substr(at + std::string_view("\nwchar: ").size()));
  CHECK(written >= 6);
  CHECK(written < 100);  // some of it before its program began
  CHECK(wait_for(spawned->pid) == 3 << 8);
}

// ---- Many at once --------------------------------------------------------------

TEST_CASE("four threads start 300 commands, some of which fail, and none touches another") {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kCommands = 300;
  std::vector<std::unique_ptr<Caught>> all;
  for (std::size_t i = 0; i < kCommands; ++i) {
    Command what = i % 10 == 7 ? command({"no-such-command"})
                               : sh("echo " + std::to_string(i) + "; exit " + std::to_string(i % 100));
    if (i % 10 == 3) what.setup.limits = {{RLIMIT_NOFILE, {100, 10}}};
    all.push_back(std::make_unique<Caught>(std::move(what)));
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < kCommands; i += kThreads) all[i]->start();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kCommands; ++i) {
    Caught& each = *all[i];
    if (i % 10 == 7) {
      CHECK(each.error == "no-such-command: No such file or directory (PATH: /usr/bin:/bin)");
    } else if (i % 10 == 3) {
      CHECK(each.error == "cannot set RLIMIT_NOFILE: Invalid argument");
    } else {
      CHECK(each.error.empty());
      CHECK(read_all(each.pipe.read.get()) == std::to_string(i) + "\n");
      CHECK(WEXITSTATUS(wait_for(each.pid)) == static_cast<int>(i % 100));
    }
  }
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("threads may start commands with and without hooks at once") {
  auto many = [](bool hooked) {
    Spawner::ChildHook hook;
    if (hooked) hook = [] { return true; };
    for (int i = 0; i < 20; ++i) {
      auto spawned = Spawner().spawn(sh("exit 5"), hook);
      if (!spawned || WEXITSTATUS(wait_for(spawned->pid)) != 5) return false;
    }
    return true;
  };
  bool plain = false;
  bool hooked = false;
  std::thread a([&] { plain = many(false); });
  std::thread b([&] { hooked = many(true); });
  a.join();
  b.join();
  CHECK(plain);
  CHECK(hooked);
}

TEST_CASE("the child leaves no trace in its parent's memory") {
  Command what = command({"no-such-command"});
  what.setup.fds = {{0, -1}, {1, 2}, {3, 0}};
  for (int i = 0; i < 100; ++i) {
    std::vector<int> fresh(1000, i);
    Outcome outcome = run(what);
    CHECK(outcome.error == "no-such-command: No such file or directory (PATH: /usr/bin:/bin)");
    CHECK(fresh == std::vector<int>(1000, i));
    CHECK(run(command({"/bin/true"})).status == 0);
  }
  CHECK(what.setup.fds.size() == 3);
  CHECK(what.setup.fds[1].source == 2);
}

// ---- With a hook ---------------------------------------------------------------

TEST_CASE("a hook runs in the child, when all else is set up") {
  Command what = sh("echo then the task");
  what.setup.cwd = "/usr";
  pid_t parent = ::getpid();
  int here = 0;
  Outcome outcome = run(what, [&] {
    here = 1;
    char path[64] = {};
    bool right =
        ::getppid() == parent && ::getpgrp() == ::getpid() && std::string(::getcwd(path, sizeof path)) == "/usr";
    say(right ? "first the hook\n" : "wrong\n");
    return true;
  });
  CHECK(outcome.out == "first the hook\nthen the task\n");
  CHECK(here == 0);
}

TEST_CASE("a hook may change the command's environment and arguments") {
  Command what = command({"no-such-command"});
  what.env.set("GONE", "1");
  Outcome outcome = run(what, [&] {
    what.argv = {"env"};
    what.env.set("ADDED", std::string(100, 'x'));
    what.env.unset("GONE");
    return true;
  });
  CHECK(outcome.out == "PATH=/usr/bin:/bin\nADDED=" + std::string(100, 'x') + "\n");
  CHECK(what.argv[0] == "no-such-command");
}

TEST_CASE("what a hook sets for the process is the task's") {
  std::string status = run(command({"/bin/cat", "/proc/self/status"}), [] {
                         std::signal(SIGUSR1, SIG_IGN);
                         sigset_t set;
                         ::sigemptyset(&set);
                         ::sigaddset(&set, SIGUSR2);
                         return ::sigprocmask(SIG_BLOCK, &set, nullptr) == 0;
                       }).out;
  CHECK(field(status, "SigIgn") == "0000000000000200");
  CHECK(field(status, "SigBlk") == "0000000000000800");
}

TEST_CASE("what a hook prints is neither lost nor printed twice") {
  CHECK(run(sh("echo task"), [] {
          std::printf("hook\n");
          return true;
        }).out == "hook\ntask\n");
}

TEST_CASE("a hook that fails is an error in the child") {
  Outcome outcome = run(sh("echo never"), [] { return false; });
  CHECK(outcome.error == "a task.exec plugin failed");
  CHECK(outcome.in_child);
  CHECK(outcome.exit_code == 126);
}

TEST_CASE("a hook that ends its process ends the task") {
  Outcome outcome = run(sh("echo never"), [] {
    ::_exit(4);
    return true;
  });
  CHECK(outcome.error.empty());
  CHECK(WEXITSTATUS(outcome.status) == 4);
}

TEST_CASE("errors after a hook come back as well") {
  Outcome outcome = run(command({"no-such-command"}), [] { return true; });
  CHECK(outcome.error == "no-such-command: No such file or directory (PATH: /usr/bin:/bin)");
  CHECK(outcome.exit_code == 127);
  Command what = sh("true");
  what.setup.cwd = "/no/such";
  outcome = run(what, [] { return true; });
  CHECK(outcome.error == "cannot change to directory /no/such: No such file or directory");
  CHECK(outcome.exit_code == 126);
}

TEST_CASE("a hook that crashes is caught by the parent's handler, other handlers are gone") {
  auto old_bus = std::signal(SIGBUS, [](int) {
    say("caught");
    ::_exit(9);
  });
  auto old_user = std::signal(SIGUSR1, [](int) { say("wrong"); });
  Outcome crashed = run(sh("true"), [] { return ::raise(SIGBUS) == 0; });
  Outcome killed = run(sh("true"), [] { return ::raise(SIGUSR1) == 0; });
  std::string status = run(command({"/bin/cat", "/proc/self/status"}), [] { return true; }).out;
  std::signal(SIGBUS, SIG_IGN);
  std::string ignored = run(command({"/bin/cat", "/proc/self/status"}), [] { return true; }).out;
  std::signal(SIGBUS, old_bus);
  std::signal(SIGUSR1, old_user);
  CHECK(crashed.out == "caught");
  CHECK(WEXITSTATUS(crashed.status) == 9);
  CHECK(killed.out.empty());
  CHECK(WTERMSIG(killed.status) == SIGUSR1);
  CHECK(field(status, "SigCgt") == "0000000000000000");
  CHECK(field(ignored, "SigIgn") == "0000000000000000");
}

TEST_CASE("the pipe of the report is out of the way of the task's descriptors") {
  Command what = sh("cat <&3; cat <&4; cat <&5; cat <&6; cat <&7; cat <&8; cat <&9; echo ok");
  for (int fd = 3; fd < 10; ++fd) what.setup.fds.push_back({fd, -1});
  CHECK(run(what, [] { return true; }).out == "ok\n");
}

// ---- Traced --------------------------------------------------------------------

TEST_CASE("a traced task stands stopped in exec, for a debugger to attach") {
  bool hooked = GENERATE(false, true);
  Spawner::ChildHook hook;
  if (hooked) hook = [] { return true; };
  Command what = sh("exit 7");
  what.setup.trace_me = true;
  auto spawned = Spawner().spawn(what, hook);
  REQUIRE(spawned);
  int status = 0;
  REQUIRE(::waitpid(spawned->pid, &status, WUNTRACED) == spawned->pid);
  REQUIRE(WIFSTOPPED(status));
  CHECK(WSTOPSIG(status) == SIGSTOP);
  std::string proc = "/proc/" + std::to_string(spawned->pid);
  UniqueFd fd(::open((proc + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  std::string text = read_all(fd.get());
  CHECK(field(text, "Name") == "sh");
  CHECK(field(text, "State") == "T (stopped)");
  CHECK(field(text, "TracerPid") == "0");
  REQUIRE(::kill(spawned->pid, SIGCONT) == 0);
  CHECK(WEXITSTATUS(wait_for(spawned->pid)) == 7);
}

TEST_CASE("a traced task that cannot start is an error like any other") {
  Command what = command({"no-such-command"});
  what.setup.trace_me = true;
  Outcome outcome = run(what);
  CHECK(outcome.error == "no-such-command: No such file or directory (PATH: /usr/bin:/bin)");
  CHECK(outcome.exit_code == 127);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("threads may start traced tasks at once") {
  auto many = [](bool& right) {
    Command what = sh("exit 3");
    what.setup.trace_me = true;
    right = true;
    for (int i = 0; i < 10; ++i) {
      auto spawned = Spawner().spawn(what);
      int status = 0;
      right = right && spawned && ::waitpid(spawned->pid, &status, WUNTRACED) > 0 && WIFSTOPPED(status) &&
              ::kill(spawned->pid, SIGCONT) == 0 && WEXITSTATUS(wait_for(spawned->pid)) == 3;
    }
  };
  bool a_right = false;
  bool b_right = false;
  std::thread a([&] { many(a_right); });
  std::thread b([&] { many(b_right); });
  a.join();
  b.join();
  CHECK(a_right);
  CHECK(b_right);
}

// Which file a command is: PATH, cwd, and files that cannot be executed.

TEST_CASE("a command gets its arguments and its environment, and nothing else") {
  Command what = command({"/usr/bin/env"});
  what.env.set("A", "1 2");
  CHECK(run(what).out == "PATH=/usr/bin:/bin\nA=1 2\n");
  CHECK(run(command({"/bin/echo", "a b", "", "c"})).out == "a b  c\n");
  CHECK(WEXITSTATUS(run(sh("exit 3")).status) == 3);
  CHECK(WTERMSIG(run(sh("kill -9 $$")).status) == 9);
}

TEST_CASE("a name without a slash is looked up in the PATH of its own environment") {
  Folder folder;
  folder.file("nacre-x", "#!/bin/sh\necho found $0\n");
  Command what = command({"nacre-x"});
  CHECK(run(what).error == "nacre-x: No such file or directory (PATH: /usr/bin:/bin)");
  what.env.set("PATH", "/no/such:/nor/here");
  CHECK(run(what).error == "nacre-x: No such file or directory (PATH: /no/such:/nor/here)");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "/none:";
  what.env.set("PATH", many);
  CHECK(run(what).error == "nacre-x: No such file or directory (PATH: " + many.substr(0, 400) + "...)");
  what.env.set("PATH", "/no/such:" + folder.path());
  CHECK(run(what).out == "found " + folder.path() + "/nacre-x\n");
  CHECK(what.argv[0] == "nacre-x");
}

TEST_CASE("a program of the working directory that is given by its bare name is pointed at") {
  Folder folder;
  folder.file("nacre-z", "#!/bin/sh\necho here\n");
  folder.folder("nacre-folder");
  Command what = command({"nacre-z"});
  what.setup.cwd = folder.path();
  CHECK(run(what).error == "nacre-z: No such file or directory (PATH: /usr/bin:/bin); did you mean ./nacre-z?");
  what.argv = {"nacre-folder"};
  CHECK(run(what).error == "nacre-folder: No such file or directory (PATH: /usr/bin:/bin)");
}

TEST_CASE("without a PATH it is /bin and /usr/bin") {
  Command what = command({"echo", "here"});
  what.env.unset("PATH");
  CHECK(run(what).out == "here\n");
  what.argv = {"nacre-x"};
  CHECK(run(what).error == "nacre-x: No such file or directory (PATH is not set, so in /bin:/usr/bin)");
}

TEST_CASE("an empty or relative part of PATH is in the command's own directory") {
  Folder folder;
  folder.file("nacre-y", "#!/bin/sh\necho top\n");
  folder.folder("sub");
  folder.file("sub/nacre-y", "#!/bin/sh\necho sub\n");
  Command what = command({"nacre-y"});
  what.setup.cwd = folder.path();
  for (const char* path : {"", ":/bin", "/bin::/usr/bin", "/bin:."}) {
    what.env.set("PATH", path);
    CHECK(run(what).out == "top\n");
  }
  what.env.set("PATH", "sub");
  CHECK(run(what).out == "sub\n");
  what.argv = {"./nacre-y"};
  CHECK(run(what).out == "top\n");
  what.argv = {"sub/nacre-y"};
  CHECK(run(what).out == "sub\n");
}

TEST_CASE("a file that may not be executed is passed over in PATH, and told if there is no other") {
  Folder folder;
  folder.folder("a");
  folder.folder("b");
  folder.folder("c");
  folder.folder("c/nacre-z");
  folder.file("a/nacre-z", "#!/bin/sh\n", 0644);
  folder.file("b/nacre-z", "#!/bin/sh\necho b\n");
  Command what = command({"nacre-z"});
  const std::string& top = folder.path();
  what.env.set("PATH", top + "/a:" + top + "/c:" + top + "/b");
  CHECK(run(what).out == "b\n");
  what.env.set("PATH", top + "/a:/no/such");
  Outcome outcome = run(what);
  CHECK(outcome.error == "nacre-z: Permission denied");
  CHECK(outcome.exit_code == 126);
  what.env.set("PATH", top + "/a/nacre-z:/" + std::string(5000, 'x') + ":" + top + "/b");
  CHECK(run(what).out == "b\n");
}

TEST_CASE("a folder of PATH that may not be searched denies no program") {
  Folder folder;
  folder.folder("closed");
  REQUIRE(::chmod((folder.path() + "/closed").c_str(), 0) == 0);
  Command what = command({"nacre-z"});
  for (std::string path : {folder.path() + "/closed", "/bin:" + folder.path() + "/closed"}) {
    what.env.set("PATH", path);
    Outcome outcome = run(what);
    CHECK(outcome.error == "nacre-z: No such file or directory (PATH: " + path + ")");
    CHECK(outcome.exit_code == 127);
  }
}

TEST_CASE("what cannot be executed is an error in the child, with the exit code of a shell") {
  Folder folder;
  std::string plain = folder.file("plain", "x", 0644);
  struct Case {
    std::string name;
    std::string error;
    int code;
  };
  for (const Case& each : {
           Case{"no-such-command", "no-such-command: No such file or directory (PATH: /usr/bin:/bin)", 127},
           Case{"/no/such", "/no/such: No such file or directory", 127},
           Case{"", ": No such file or directory", 127},
           Case{plain + "/x", plain + "/x: Not a directory", 127},
           Case{plain, plain + ": Permission denied", 126},
           Case{folder.path(), folder.path() + ": Permission denied", 126},
           Case{"/" + std::string(5000, 'x'), "/" + std::string(5000, 'x') + ": File name too long", 126},
       }) {
    Outcome outcome = run(command({each.name}));
    CHECK(outcome.error == each.error);
    CHECK(outcome.exit_code == each.code);
    CHECK(outcome.in_child);
  }
  CHECK(::waitpid(-1, nullptr, 0) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("exec_failure_code") {
  CHECK(exec_failure_code(ENOENT) == 127);
  CHECK(exec_failure_code(ENOTDIR) == 127);
  for (int code : {EACCES, ENOEXEC, E2BIG, ENOMEM, ELOOP}) CHECK(exec_failure_code(code) == 126);
}

TEST_CASE("a command without a name is an error before there is a child") {
  Outcome outcome = run(command({}));
  CHECK(outcome.error == "expected a command, got none");
  CHECK_FALSE(outcome.in_child);
}

TEST_CASE("a script without an interpreter is run by /bin/sh, with its arguments") {
  Folder folder;
  std::string script = folder.file("script", "echo \"$0 $#: $1\"\n");
  CHECK(run(command({script, "a b", "c"})).out == script + " 2: a b\n");
  CHECK(run(command({script})).out == script + " 0: \n");
}

TEST_CASE("a script whose interpreter is missing says so") {
  Folder folder;
  std::string script = folder.file("script", "#!/no/such/interpreter\n");
  CHECK(run(command({script})).error ==
        script +
            ": No such file or directory (the file is there, but not the interpreter or loader that it names)");
  Command what = command({"./script"});
  what.setup.cwd = folder.path();
  CHECK(run(what).error ==
        "./script: No such file or directory (the file is there, but not the interpreter or loader that it names)");
}

TEST_CASE("an argument is at most 131071 bytes, and the one that is longer is named") {
  CHECK(run(command({"/bin/true", std::string(131071, 'x')})).status == 0);
  Outcome outcome = run(command({"/bin/true", "a", std::string(131072, 'x')}));
  CHECK(outcome.error == "/bin/true: Argument list too long: argument 2 has 131072 bytes, of at most 131071");
  CHECK(outcome.exit_code == 126);
  outcome = run(command({"/bin/true", std::string(std::size_t{2} << 20, 'x')}));
  CHECK(outcome.error == "/bin/true: Argument list too long: argument 1 has 2097152 bytes, of at most 131071");
}

TEST_CASE("a variable is at most 131071 bytes with its name") {
  Command what = command({"/bin/true"});
  what.env.set("LONG", std::string(131066, 'x'));
  CHECK(run(what).status == 0);
  what.env.set("LONG", std::string(131067, 'x'));
  CHECK(run(what).error ==
        "/bin/true: Argument list too long: 'LONG' in the environment has 131072 bytes, of at most 131071");
}

TEST_CASE("100,000 variables are passed on, and too many are told with their size and the limit") {
  rlimit stack{};
  REQUIRE(::getrlimit(RLIMIT_STACK, &stack) == 0);
  Command what = command({"/bin/true"});
  what.setup.limits.push_back({RLIMIT_STACK, {rlim_t{8} << 20, stack.rlim_max}});
  for (int i = 100000; i < 200000; ++i) what.env.set("V" + std::to_string(i), "");
  // PATH=/usr/bin:/bin, 19 bytes with the NUL; V100000=, 9 bytes; 8 bytes a pointer: 1.7 MB of 2 MB.
  CHECK(run(what).error.empty());
  for (int i = 100000; i < 200000; ++i) what.env.set("V" + std::to_string(i), "0123456789");
  CHECK(run(what).error ==
        "/bin/true: Argument list too long: the arguments take 18 bytes and the environment 2700027, of at most "
        "2097152 "
        "(a quarter of ulimit -s, up to 6291456)");
}
