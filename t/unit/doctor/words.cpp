// SPDX-License-Identifier: Apache-2.0
#include "doctor/findings.hpp"

#include "catch.hpp"

using namespace nacre;
using doctor::Doing;
using doctor::Examination;
using doctor::Fact;
using doctor::PipeEnd;
using doctor::TaskGroup;

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
