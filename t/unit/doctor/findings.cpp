// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "base/json.hpp"
#include "doctor/findings.hpp"

using namespace nacre;
using doctor::Doing;
using doctor::Examination;
using doctor::Fact;
using doctor::PipeEnd;
using doctor::Steps;
using doctor::TaskGroup;

namespace {

using Texts = std::vector<std::string>;

Fact busy() {
  Fact out;
  out.doing = Doing::busy;
  out.program = "solver";
  return out;
}

Fact waits(std::string call, std::string object = "", PipeEnd writer = PipeEnd::unknown) {
  Fact out;
  out.program = "solver";
  out.call = std::move(call);
  out.object = std::move(object);
  out.writer = writer;
  return out;
}

Fact with(Doing doing) {
  Fact out;
  out.doing = doing;
  return out;
}

Fact in_barrier(std::uint64_t number) {
  Fact out = waits("read", "socket");
  out.barrier = number;
  return out;
}

// Two ranks on each of n0, n1, ...
struct Patient : Examination {
  explicit Patient(std::uint64_t all) {
    tasks = all;
    interval = 1;
    host_of = [](std::uint32_t rank) { return "n" + std::to_string(rank / 2); };
  }
  Patient& put(const char* ranks, Fact fact) {
    TaskGroup group;
    group.ranks = value::Idset::parse(ranks).value();
    group.fact = std::move(fact);
    groups.push_back(std::move(group));
    groups = doctor::folded(std::move(groups));
    return *this;
  }
  [[nodiscard]] Texts lines() const {
    Texts out;
    for (const auto& each : doctor::verdicts(*this)) out.push_back(each.line());
    return out;
  }
  // "KIND RANKS"
  [[nodiscard]] Texts kinds() const {
    Texts out;
    for (const auto& each : doctor::verdicts(*this))
      out.push_back(each.json()["kind"].get<std::string>() + " " + each.ranks.str());
    return out;
  }
};

}  // namespace

TEST_CASE("one is elsewhere, and the others wait") {
  Patient job(8);
  job.put("0-2,4-7", busy()).put("3", waits("read", "pipe", PipeEnd::itself));
  CHECK(job.lines() ==
        Texts{"=> rank 3 (n1) reads a pipe that nobody else has open for writing: so nothing will ever come",
              "=> rank 3 (n1) is not where the others are: 7 of 8 are busy, and neither reads nor writes; rank 3 "
              "reads a pipe that nobody else has open for writing"});
}

TEST_CASE("those that wait are told apart by their stacks") {
  Fact exchange = busy();
  exchange.stack = {"main", "exchange", "MPI_Barrier (libmpich.so.12)"};
  Fact solve = busy();
  solve.stack = {"main", "solve"};
  Patient job(4);
  Fact receive = busy();
  receive.stack = {"main", "MPI_Recv (libmpich.so.12)"};
  job.put("0-2", exchange).put("3", receive);
  CHECK(job.lines() == Texts{"=> rank 3 (n1) is not where the others are: 3 of 4 are in MPI_Barrier "
                             "(libmpich.so.12); rank 3 is in MPI_Recv (libmpich.so.12)"});
  solve.steps = Steps::none;
  Patient unsure(4);
  unsure.put("0-2", exchange).put("3", solve);
  CHECK(unsure.lines() ==
        Texts{"=> rank 3 (n1) spins or computes, and 3 of 4 wait, perhaps for it: they are in "
              "MPI_Barrier (libmpich.so.12); rank 3 is in solve, and in the same place a moment later"});
}

TEST_CASE("one half waits for others in a function that is for that: the other half is missing there") {
  Fact reduce = waits("futex");
  reduce.stack = {"<module> (train.py:9)", "all_reduce (distributed_c10d.py:1541)"};
  Fact loads = waits("poll", "pipe");
  loads.stack = {"<module> (train.py:8)", "Queue.get (queues.py:113)"};
  Patient two(2);
  two.put("1", reduce).put("0", loads);
  CHECK(two.lines() == Texts{"=> rank 0 (n0) is not where the others are: 1 of 2 is in all_reduce "
                             "(distributed_c10d.py:1541); rank 0 is in Queue.get (queues.py:113)"});
  loads.wakes = true;
  Patient naps(2);
  naps.put("0", reduce).put("1", loads);
  CHECK(naps.lines() ==
        Texts{"=> rank 1 (n0) wakes now and then, and 1 of 2 waits, perhaps for it: rank 0 is in all_reduce "
              "(distributed_c10d.py:1541); rank 1 is in Queue.get (queues.py:113)"});
  Fact other = reduce;
  other.stack.back() = "broadcast (distributed_c10d.py:1400)";
  Patient both(2);  // which of them is wrong is not known
  both.put("0", reduce).put("1", other);
  CHECK(both.kinds() == Texts{"several "});
  Patient less(6);
  less.put("0-1", reduce).put("2", loads).put("3-5", waits("recvfrom", "socket"));
  CHECK(less.kinds() == Texts{"several "});
}

TEST_CASE("who gets on is not blamed") {
  Fact exchange = busy();
  exchange.stack = {"main", "exchange", "MPI_Barrier (libmpich.so.12)"};
  Fact solve = busy();
  solve.stack = {"main", "solve"};
  solve.steps = Steps::some;
  Patient computes(4);
  computes.put("0-2", exchange).put("3", solve);
  CHECK(computes.lines() ==
        Texts{"=> rank 3 (n1) computes, and 3 of 4 wait, perhaps for it: they are in MPI_Barrier "
              "(libmpich.so.12); rank 3 is in solve, and elsewhere a moment later"});
  Fact polls = waits("clock_nanosleep");
  polls.wakes = true;
  Patient wakes(4);
  wakes.put("0-2", waits("recvfrom", "socket")).put("3", polls);
  CHECK(wakes.kinds() == Texts{"works 3"});
  Fact answers = waits("recvfrom", "socket");
  answers.moves = true;
  Patient moves(4);
  moves.put("0-2", waits("futex")).put("3", answers);
  CHECK(moves.kinds() == Texts{"works 3"});
  Patient most(4);  // and so do all other tasks
  most.put("0-2", solve).put("3", waits("recvfrom", "socket"));
  CHECK(most.kinds() == Texts{"fine "});
  Patient both(8);  // a task that waits elsewhere may wait for the one that computes
  both.put("0-5", exchange).put("6", solve).put("7", waits("futex"));
  CHECK(both.kinds() == Texts{"works 6"});
}

TEST_CASE("most are busy, and perhaps compute: who waits is named, and not blamed") {
  Patient job(4);
  job.put("0-2", busy()).put("3", waits("recvfrom", "socket"));
  CHECK(job.lines() == Texts{"=> rank 3 (n1) waits, and 3 of 4 are busy, and neither reads nor writes: they "
                             "compute, or wait for others "
                             "without sleeping; --stacks tells which"});
  Patient sleeping(4);
  sleeping.put("0-2", waits("clock_nanosleep")).put("3", waits("recvfrom", "socket"));
  CHECK(sleeping.lines() ==
        Texts{"=> rank 3 (n1) waits, and 3 of 4 sleep (clock_nanosleep): a sleep ends by itself"});
}

TEST_CASE("a task whose threads wait for each other") {
  Fact locked = waits("futex");
  locked.locked = 2;
  Patient job(4);
  job.put("0-2", busy()).put("3", locked);
  Texts lines = job.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "=> rank 3 (n1) waits for locks or for its threads, as all of its 2 threads do (futex): nobody else "
        "can wake them");
  CHECK(job.kinds() == Texts{"deadlock 3", "missing 3"});
}

TEST_CASE("threads that wait elsewhere are another place, though the first ones wait in the same") {
  Fact joins = waits("futex");
  joins.stack = {"main", "pthread_join (libc.so.6)"};
  joins.others = {{"work", "cond_wait (libc.so.6)"}};
  Fact other = joins;
  other.others = {{"work", "mutex_lock (libc.so.6)"}};
  Patient job(4);
  job.put("0-2", joins).put("3", other);
  CHECK(job.kinds() == Texts{"missing 3"});
}

TEST_CASE("some of those at the same place run, and some do not: they are not alike") {
  Patient job(4);
  job.put("0-3", waits("futex"));
  for (double cpu : {0.0, 0.4, 0.3, 0.35}) job.groups[0].cpu.add(cpu);
  CHECK(job.lines() ==
        Texts{"=> all 4 tasks are in the same place, but some of them run, and some do not: they wait for a "
              "lock or a thread (futex), with 0 to 40 % cpu"});
}

TEST_CASE("a full pipe that nobody else reads") {
  Fact writes = waits("write", "pipe");
  writes.reader = PipeEnd::itself;
  Patient job(2);
  job.put("1", writes);
  CHECK(job.lines() ==
        Texts{"=> rank 1 (n0) writes to a pipe that nobody else has open for reading: so nobody will ever "
              "read it"});
}

TEST_CASE("the host is named only where it may be the cause") {
  Fact stuck = with(Doing::stuck);
  stuck.where = "kernel_clone";
  Patient job(2);
  job.put("0", stuck);
  CHECK(job.lines() ==
        Texts{"=> rank 0 (n0) is stuck in the kernel, in kernel_clone (state D): at both looks; no signal "
              "ends that"});
}

TEST_CASE("the last function that most share is named where all are in different places") {
  Patient job(3);
  const char* names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    Fact fact = waits("futex");
    fact.stack = {"main", i < 2 ? "exchange" : "read_mesh", names[i]};
    job.put(std::to_string(i).c_str(), fact);
  }
  CHECK(job.lines() ==
        Texts{"=> the tasks are in 3 different places, and none of them can be blamed: 1 of 3 at most are in "
              "the same; the last function that most of them share is exchange"});
}

TEST_CASE("whoever has not entered a PMI barrier is missing there, however many they are") {
  Patient job(8);
  job.put("0-4", in_barrier(2)).put("5-6", waits("futex")).put("7", waits("poll"));
  CHECK(job.lines() ==
        Texts{"=> ranks 5-7 (n2, n3) are not where the others are: 5 of 8 are in PMI barrier 2, which waits for "
              "all; ranks 5-6 wait for a lock or a thread (futex); rank 7 waits for descriptors (poll)"});
  Patient computes(8);
  computes.put("0-4", in_barrier(2)).put("5", busy()).put("6-7", waits("futex"));
  CHECK(computes.kinds() == Texts{"spins 5"});
}

TEST_CASE("several small groups: none is blamed") {
  Patient job(8);
  job.put("0-3", busy()).put("4-5", waits("futex")).put("6-7", waits("poll"));
  CHECK(job.kinds() == Texts{"several ", "spins 0-3"});
  Patient most(8);
  most.put("0-5", waits("epoll_wait")).put("6", waits("futex")).put("7", waits("poll"));
  CHECK(most.lines() ==
        Texts{"=> the tasks are in 3 different places, and none of them can be blamed: 6 of 8 at most "
              "are in the same"});
  Patient half(2);
  half.put("0", waits("futex")).put("1", waits("poll"));
  CHECK(half.kinds() == Texts{"several "});
}

TEST_CASE("a group that is too large is not blamed") {
  Patient job(5);
  job.put("0-2", waits("futex")).put("3-4", waits("poll"));
  CHECK(job.kinds() == Texts{"several "});
}

TEST_CASE("stuck in the kernel, stopped, held by a debugger, and frozen") {
  Fact stuck = with(Doing::stuck);
  stuck.where = "nfs_wait_bit_killable";
  Patient job(9);
  job.put("0-4", busy())
      .put("5", stuck)
      .put("6", with(Doing::stopped))
      .put("7", with(Doing::traced))
      .put("8", with(Doing::frozen));
  Texts lines = job.lines();
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] ==
        "=> rank 5 (n2) is stuck in the kernel, in nfs_wait_bit_killable (state D): at both looks; no "
        "signal ends that, so look at the host and its file systems");
  CHECK(lines[1] == "=> rank 6 (n3) is stopped: nacre kill -s CONT JOB lets them go on");
  CHECK(lines[2] == "=> rank 7 (n3) is held by a debugger: state t");
  CHECK(lines[3] == "=> rank 8 (n4) is frozen, by its cgroup: no signal ends that, only who has frozen it");
}

TEST_CASE("what a rule of its own names is named beside the others, which wait for it") {
  Patient job(8);
  job.put("0-5", busy()).put("6", with(Doing::stopped)).put("7", waits("openat", "FIFO"));
  CHECK(job.kinds() == Texts{"stopped 6", "pipe 7", "missing 6-7"});
}

TEST_CASE("all are in the same place") {
  Patient sleeping(4);
  sleeping.put("0-3", waits("futex"));
  CHECK(sleeping.lines() ==
        Texts{"=> all 4 tasks that run are in the same place, so none is missing: they wait for "
              "a lock or a thread (futex)"});
  Patient spinning(4);
  spinning.put("0-3", busy());
  CHECK(spinning.kinds() == Texts{"alike 0-3", "spins 0-3"});
}

TEST_CASE("tasks that read or write are fine") {
  Fact moves = busy();
  moves.moves = true;
  Patient job(4);
  job.put("0-3", moves);
  CHECK(job.lines() == Texts{"=> nothing was found that hangs"});
  Patient mixed(4);
  Fact sleeps = waits("poll");
  sleeps.moves = true;
  mixed.put("0-1", moves).put("2-3", sleeps);
  CHECK(mixed.kinds() == Texts{"fine "});
}

TEST_CASE("a task that waits for the job's input") {
  Fact reads = waits("read", "pipe", PipeEnd::shell);
  reads.is_input = true;
  Patient job(1);
  job.put("0", reads);
  CHECK(job.lines() == Texts{"=> rank 0 (n0) reads its standard input, a pipe that its shell feeds: it waits for "
                             "whoever gives the job its input"});
}

TEST_CASE("one has ended well, and the others wait") {
  Patient job(4);
  job.put("0-2", in_barrier(3));
  job.ended_well.insert(3);
  CHECK(job.lines() ==
        Texts{"=> all 3 tasks that run are in the same place, so none is missing: they are in PMI "
              "barrier 3",
              "=> rank 3 (n1) has ended well, and the others go on: if they wait for it, they wait for "
              "ever"});
  Patient most(8);  // the last of many tasks that one after the other go on
  most.put("7", waits("futex"));
  most.ended_well.insert(0, 6);
  CHECK(most.kinds() == Texts{"fine "});
}

TEST_CASE("a shell that has not answered, and one that is lost") {
  Patient job(6);
  job.put("0-1", waits("futex"));
  job.absent = {{1, "n1", value::Idset::range(2, 3), false}, {2, "n2", value::Idset::range(4, 5), true}};
  CHECK(job.lines() ==
        Texts{"=> shell 1 on n1 has not answered in time: it is stopped, its host is, or is slow; it "
              "has 2 tasks, 2-3",
              "=> shell 2 on n2 is lost: it had 2 tasks, 4-5",
              "=> all 2 tasks that are known are in the same place, so none is missing: they wait for a "
              "lock or a thread (futex)"});
}

TEST_CASE("many shells that have not answered are one verdict, and so are many that are lost") {
  Patient job(14);
  job.put("0-1", waits("futex"));
  for (std::uint32_t shell = 1; shell <= 5; ++shell)
    job.absent.push_back({shell, fmt::format("n{}", shell), value::Idset::range(2 * shell, 2 * shell + 1), false});
  job.absent.push_back({6, "n6", value::Idset::range(12, 13), true});
  Texts lines = job.lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] ==
        "=> shells 1-5 on n[1-5] have not answered in time: they, their hosts, or a shell between them and the "
        "leader "
        "are stopped, or slow; they have 10 tasks, 2-11");
  CHECK(lines[1] == "=> shell 6 on n6 is lost: it had 2 tasks, 12-13");
  job.absent.pop_back();
  for (doctor::Absent& each : job.absent) each = {each.shell, "", {}, true};
  CHECK(job.lines()[0] == "=> shells 1-5 are lost: they had 0 tasks");
}

TEST_CASE("tasks without a process are in no place") {
  Patient job(4);
  job.put("0-2", with(Doing::not_started)).put("3", with(Doing::over));
  CHECK(job.kinds() == Texts{"fine "});
}

namespace {

Fact calls(std::string call, std::string object = "") {
  Fact out;
  out.call = std::move(call);
  out.object = std::move(object);
  return out;
}

TaskGroup group(value::Idset ranks, Fact fact, double cpu) {
  TaskGroup out;
  out.ranks = std::move(ranks);
  out.fact = std::move(fact);
  for (std::uint64_t i = 0; i < out.ranks.size(); ++i) out.cpu.add(cpu);
  return out;
}

}  // namespace

TEST_CASE("what a task does, of one and of several") {
  CHECK(doctor::what(calls("read", "socket")) == "reads a socket");
  CHECK(doctor::what(calls("recvmsg", "socket"), true) == "read a socket");
  CHECK(doctor::what(calls("read")) == "reads a descriptor");
  CHECK(doctor::what(calls("write", "pipe")) == "writes to a pipe");
  CHECK(doctor::what(calls("write", "pipe"), true) == "write to a pipe");
  CHECK(doctor::what(calls("wait4")) == "waits for a child (wait4)");
  CHECK(doctor::what(calls("clock_nanosleep")) == "sleeps (clock_nanosleep)");
  CHECK(doctor::what(calls("openat", "FIFO")) == "opens a FIFO that nobody has open at its other end");
  CHECK(doctor::what(calls("openat")) == "opens a file");
  CHECK(doctor::what(calls("semtimedop"), true) == "wait in semtimedop");
  CHECK(doctor::what(calls("restart_syscall")) == "waits in a call that has been interrupted before");
  CHECK(doctor::what(Fact()) == "sleeps");
  Fact unknown;
  unknown.where = "nfs_\x1bwait";
  CHECK(doctor::what(unknown) == "waits in the kernel, in nfs_\\x1bwait");
  Fact nobody = calls("read", "pipe");
  nobody.writer = PipeEnd::nobody;
  CHECK(doctor::what(nobody) == "reads a pipe that nobody has open for writing");
}

TEST_CASE("times in words") {
  CHECK(doctor::time_words(9) == "9 s");
  CHECK(doctor::time_words(119) == "119 s");
  CHECK(doctor::time_words(540) == "9 min");
  CHECK(doctor::time_words(9000) == "2.5 h");
}

TEST_CASE("ranks, with their hosts if these are few") {
  Examination job;
  job.host_of = [](std::uint32_t rank) { return "n" + std::to_string(rank); };
  CHECK(doctor::who(value::Idset::range(3, 3), job) == "rank 3 (n3)");
  CHECK(doctor::who(value::Idset::range(0, 3), job) == "ranks 0-3 (n0, n1, n2, n3)");
  CHECK(doctor::who(value::Idset::range(0, 4), job) == "ranks 0-4");
  value::Idset odd;
  for (std::uint32_t i = 0; i < 200; i += 2) odd.insert(i);
  CHECK(doctor::who(odd, job).size() < 80);
  CHECK(doctor::who(odd, job).ends_with(",..."));
}

TEST_CASE("a line for each group, in columns") {
  Examination job;
  job.tasks = 512;
  job.host_of = [](std::uint32_t rank) { return rank == 3 ? "n0" : "n" + std::to_string(rank); };
  Fact all;
  all.doing = Doing::busy;
  all.program = "solver";
  all.stack = {"main", "solve", "MPI_Allreduce (libmpich.so.12)"};
  Fact one = calls("read", "file");
  one.program = "solver";
  one.where = "folio_wait";
  value::Idset most = value::Idset::range(0, 511);
  most.remove(3);
  job.groups = {group(most, all, 0.99), group(value::Idset::range(3, 3), one, 0)};
  job.groups[1].silent.add(540);
  job.groups[1].path = "/data/mesh";
  job.notes = {"a note"};
  std::vector<doctor::Verdict> verdicts{{doctor::Verdict::Kind::missing, {}, "rank 3 is elsewhere", "why"}};
  CHECK(
      doctor::text_of(job, verdicts, {}) ==
      "511 of 512  0-2,4-511  main > solve > MPI_Allreduce (libmpich.so.12)  (is busy, and neither reads nor "
      "writes, "
      "99 % cpu)\n"
      "  1 of 512  3 (n0)     solver reads a file                            (in folio_wait, 0 % cpu, silent for 9 "
      "min, /data/mesh)\n"
      "=> rank 3 is elsewhere: why\n"
      "note: a note\n");
  job.groups = {job.groups[1]};
  job.notes.clear();
  CHECK(doctor::text_of(job, {}, {true}) ==
        "3 (n0)  solver reads a file  (in folio_wait, 0 % cpu, silent for 9 min, /data/mesh)\n");
}
