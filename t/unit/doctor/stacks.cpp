// SPDX-License-Identifier: Apache-2.0
#include "doctor/stacks.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;
using doctor::comparable;
using doctor::StackFrame;
using doctor::stacks_in;
using doctor::StackTool;
using doctor::Steps;
using doctor::TaskGroup;

namespace {

using Texts = std::vector<std::string>;

TaskGroup group(const char* ranks, Texts stack) {
  TaskGroup out;
  out.ranks = value::Idset::parse(ranks).value();
  out.fact.stack = std::move(stack);
  return out;
}

}  // namespace

TEST_CASE("what eu-stack prints, thread by thread") {
  auto threads = stacks_in(StackTool::eu_stack,
                           "PID 5 - process\n"
                           "TID 5:\n"
                           "#0  0x00007fe1eb88b2ad read@@GLIBC_2.2.5 - /usr/lib/x86_64-linux-gnu/libc.so.6\n"
                           "#1  0x000055e3555a3173 app::Mesh::read(int, char const*) - /home/a b/app\n"
                           "#2  0x000055747a8ee173 - /tmp/rs\n"
                           "#3  0x00007ffd12345678 __vdso_gettimeofday - [vdso: 5]\n"
                           "#4  0x000055747a8ee081 _start\n"
                           "eu-stack: tid 5: shown max number of frames (5, use -n 0 for unlimited)\n"
                           "TID 6:\n"
                           "#0  0x0000000000000010 work - /home/a b/app\n"
                           "TID 7:\n");
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].tid == 5);
  CHECK(threads[0].frames ==
        std::vector<StackFrame>{{"read", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0x7fe1eb88b2ad},
                                {"app::Mesh::read(int, char const*)", "/home/a b/app", 0x55e3555a3173},
                                {"", "/tmp/rs", 0x55747a8ee173},
                                {"__vdso_gettimeofday", "[vdso: 5]", 0x7ffd12345678},
                                {"_start", "", 0x55747a8ee081}});
  CHECK(threads[1] == doctor::ThreadStack{6, false, {{"work", "/home/a b/app", 0x10}}});
  CHECK(stacks_in(StackTool::eu_stack, "eu-stack: dwfl_linux_proc_report pid 5: Permission denied\n").empty());
  CHECK(stacks_in(StackTool::eu_stack, "").empty());
}

TEST_CASE("what gdb prints, thread by thread") {
  auto threads = stacks_in(StackTool::gdb,
                           "[Thread debugging using libthread_db enabled]\n"
                           "0x00007fe1eb88b2ad in read () from /lib/x86_64-linux-gnu/libc.so.6\n\n"
                           "Thread 2 (Thread 0x7f3009e9d6c0 (LWP 6) \"app\"):\n"
                           "#0  app::wait (this=0x1) at /src/app.cpp:9\n\n"
                           "Thread 1 (Thread 0x7f3009e9e740 (LWP 5) \"app\"):\n"
                           "#0  0x00007fe1eb88b2ad in read () from /lib/x86_64-linux-gnu/libc.so.6\n"
                           "#1  app::read (this=0x1, at=2) at /src/app.cpp:7\n"
                           "#2  0x000055747a8ee173 in ?? ()\n"
                           "#3  0x000055e3555a3173 in main (argc=1) at r.c:2\n"
                           "[Inferior 1 (process 5) detached]\n");
  REQUIRE(threads.size() == 2);
  CHECK(threads[0] == doctor::ThreadStack{6, false, {{"app::wait", "", 0}}});
  CHECK(threads[1].tid == 5);
  CHECK(threads[1].frames == std::vector<StackFrame>{{"read", "/lib/x86_64-linux-gnu/libc.so.6", 0x7fe1eb88b2ad},
                                                     {"app::read", "", 0},
                                                     {"", "", 0x55747a8ee173},
                                                     {"main", "", 0x55e3555a3173}});
  CHECK(stacks_in(StackTool::gdb, "Thread 1 (process 9):\n#0  main () at r.c:2\n")[0].tid == 9);
  CHECK(stacks_in(StackTool::gdb, "ptrace: Operation not permitted.\nNo stack.\n").empty());
}

TEST_CASE("what py-spy prints, thread by thread") {
  auto threads =
      stacks_in(StackTool::py_spy,
                "Process 5: python3 train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\n"
                "Thread 6 (idle): \"Worker\"\n    run (threading.py:975)\n\n"
                "Thread 0x7F11 (active): \"MainThread\"\n    step (train (1).py:12)\n        Arguments:\n"
                "            x: 1\n    <module> (train (1).py:40)\n");
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].tid == 6);
  CHECK(threads[1].frames ==
        std::vector<StackFrame>{{"step", "train (1).py", 0, 12}, {"<module>", "train (1).py", 0, 40}});
  CHECK(stacks_in(StackTool::py_spy, "Error: Permission denied\n").empty());
  CHECK(doctor::stack_of(threads, 6) == &threads[0]);
  CHECK(doctor::stack_of(threads, 5) == &threads[1]);  // the thread's number in the kernel is not known
  CHECK(doctor::stack_of({}, 5) == nullptr);
}

TEST_CASE("two stacks of a thread show whether it gets on") {
  std::vector<StackFrame> barrier{{"progress", "/opt/mpi/libmpi.so.12", 0x50},
                                  {"MPI_Barrier", "/opt/mpi/libmpi.so.12", 0x100},
                                  {"step", "/a", 0x2000},
                                  {"main", "/a", 0x1000}};
  auto compare = [&](std::vector<StackFrame> second) { return doctor::steps_between(barrier, second, "/a"); };
  CHECK(compare(barrier) == Steps::none);
  auto other = barrier;
  other[0] = {"poll", "/opt/mpi/libmpi.so.12", 0x70};  // MPI's own functions
  other[1].at = 0x180;
  CHECK(compare(other) == Steps::none);
  other[2].at = 0x2008;  // another call in the same function
  CHECK(compare(other) == Steps::some);
  CHECK(compare({{"step", "/a", 0x2000}, {"main", "/a", 0x1000}}) == Steps::some);
  CHECK(compare({}) == Steps::unknown);
  std::vector<StackFrame> loop{{"solve", "/a", 0x3000}, {"main", "/a", 0x1000}};
  auto further = loop;
  further[0].at += 24;
  CHECK(doctor::steps_between(loop, further, "/a") == Steps::none);
  further[0].at += 240;
  CHECK(doctor::steps_between(loop, further, "/a") == Steps::some);
}

TEST_CASE("two stacks of a script") {
  std::vector<StackFrame> script{{"step", "/home/me/train.py", 0, 7}, {"<module>", "/home/me/train.py", 0, 9}};
  auto other = script;
  CHECK(doctor::steps_between(script, other, "") == Steps::none);
  other[0].line = 8;
  CHECK(doctor::steps_between(script, other, "") == Steps::some);
  CHECK(doctor::script_place(other) == "/home/me/train.py:8");
  CHECK(doctor::script_place({{"main", "/a", 0x10}}).empty());
  script.insert(script.begin(), {"all_reduce", "/opt/torch/distributed/distributed_c10d.py", 0, 2806});
  other = script;
  other[0].line = 2810;  // inner functions
  CHECK(doctor::steps_between(script, other, "") == Steps::none);
  CHECK(comparable(script, "", true).back() == "all_reduce (distributed_c10d.py:2806)");
  script.push_back({"main", "/usr/lib/run.py", 0, 1});  // this is no function of C
  CHECK(comparable(script, "").front() == "main (run.py:1)");
}

TEST_CASE("what waits for other tasks inside") {
  CHECK(doctor::is_in_communication({"main", "PMPI_Recv (libmpich.so.12)"}));
  CHECK(doctor::is_in_communication({"<module> (train.py)", "all_reduce (distributed_c10d.py)"}));
  CHECK(doctor::is_in_communication({"<module> (train.py:3)", "all_reduce (distributed_c10d.py:2806)"}));
  CHECK_FALSE(doctor::is_in_communication({"<module> (train.py:3)", "work (distributed_c10d.pyx:1)"}));
  CHECK_FALSE(doctor::is_in_communication({"main", "solve"}));
  CHECK_FALSE(doctor::is_in_communication({}));
}

TEST_CASE("stacks begin with main, and end with the first function of the system") {
  std::vector<StackFrame> frames{{"__read_nocancel", "/lib/x86_64-linux-gnu/libc.so.6"},
                                 {"fgets", "/lib/x86_64-linux-gnu/libc.so.6"},
                                 {"read_mesh", "/home/me/solver"},
                                 {"main", "/home/me/solver"},
                                 {"__libc_start_main", "/lib/x86_64-linux-gnu/libc.so.6"},
                                 {"_start", "/home/me/solver"}};
  CHECK(comparable(frames, "/home/me/solver") == Texts{"main", "read_mesh", "fgets (libc.so.6)"});
  frames[3].function = "";  // no symbols
  frames[5].function = "";
  CHECK(comparable(frames, "/home/me/solver") == Texts{"?", "read_mesh", "fgets (libc.so.6)"});
  frames.resize(4);
  CHECK(comparable(frames, "/home/me/solver") == Texts{"?", "read_mesh", "fgets (libc.so.6)"});
  CHECK(comparable({}, "/home/me/solver").empty());
}

TEST_CASE("what a function of MPI does inside is cut, wherever MPI is") {
  std::vector<StackFrame> frames{{"ucp_worker_progress", "/opt/ucx/libucp.so.0"},
                                 {"MPIDI_Progress", "/opt/mpi/libmpi.so.12"},
                                 {"MPI_Allreduce", "/opt/mpi/libmpi.so.12"},
                                 {"", "/opt/app/libapp.so"},
                                 {"main", "/opt/app/solver"}};
  CHECK(comparable(frames, "/opt/app/solver") == Texts{"main", "? (libapp.so)", "MPI_Allreduce (libmpi.so.12)"});
}

TEST_CASE("an interpreter of the system is not cut") {
  std::vector<StackFrame> frames{{"time_sleep", "/usr/bin/python3.11"},
                                 {"_PyEval_EvalFrameDefault", "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"},
                                 {"main", "/usr/bin/python3.11"}};
  CHECK(comparable(frames, "/usr/bin/python3.11") ==
        Texts{"main", "_PyEval_EvalFrameDefault (libpython3.11.so.1.0)", "time_sleep"});
}

TEST_CASE("what an interpreter of Python calls of itself is one function, however deep the script is") {
  std::vector<StackFrame> frames{{"futex_wait", "/lib/x86_64-linux-gnu/libc.so.6"},
                                 {"PyThread_acquire_lock_timed", "/opt/py/bin/python3.11"},
                                 {"lock_PyThread_acquire_lock", "/opt/py/bin/python3.11"},
                                 {"method_vectorcall_VARARGS", "/opt/py/bin/python3.11"},
                                 {"_PyEval_EvalFrameDefault", "/opt/py/bin/python3.11"},
                                 {"", "/opt/py/bin/python3.11"},
                                 {"_PyEval_EvalFrameDefault", "/opt/py/bin/python3.11"},
                                 {"pymain_run_python", "/opt/py/bin/python3.11"},
                                 {"main", "/opt/py/bin/python3.11"}};
  CHECK(comparable(frames, "/opt/py/bin/python3.11") ==
        Texts{"main", "_PyEval_EvalFrameDefault", "lock_PyThread_acquire_lock", "futex_wait (libc.so.6)"});
}

TEST_CASE("a stack has at most 64 functions") {
  std::vector<StackFrame> frames(200, StackFrame{"again", "/a"});
  CHECK(comparable(frames, "/a").size() == 64);
}

TEST_CASE("a library is named once for functions that follow each other") {
  CHECK(doctor::path_text({"main", "a (libx.so)", "b (libx.so)", "c (liby.so)", "d (libx.so)"}) ==
        "main > a > b (libx.so) > c (liby.so) > d (libx.so)");
  CHECK(doctor::path_text({}).empty());
  CHECK(doctor::path_text({"read(int)", "read(int)"}) == "read(int) > read(int)");
}

TEST_CASE("stacks are one tree") {
  auto tree = doctor::tree_of({group("0-2,4-7", {"main", "solve", "exchange", "MPI_Barrier (libmpich.so.12)"}),
                               group("3", {"main", "solve", "read_mesh", "fgets (libc.so.6)"}), group("8", {}),
                               group("9", {"run (a.py)"})});
  CHECK(tree.ranks.str() == "0-7,9");
  CHECK(tree.text() ==
        "main > solve  [8: 0-7]\n"
        "  exchange > MPI_Barrier (libmpich.so.12)  [7: 0-2,4-7]\n"
        "  read_mesh > fgets (libc.so.6)  [1: 3]\n"
        "run (a.py)  [1: 9]\n");
  CHECK(doctor::tree_of({}).text().empty());
}

TEST_CASE("a stack that ends where others go on has a line of its own") {
  auto tree = doctor::tree_of({group("0", {"main"}), group("1", {"main", "work"})});
  CHECK(tree.text() == "main  [2: 0-1]\n  work  [1: 1]\n");
}
