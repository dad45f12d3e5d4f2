// SPDX-License-Identifier: Apache-2.0
//
// Which file a command is: PATH, cwd, and files that cannot be executed.
#include <sys/resource.h>
#include <sys/stat.h>

#include "run.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

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
