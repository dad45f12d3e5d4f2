// SPDX-License-Identifier: Apache-2.0
#include "exits/blame.hpp"

#include <csignal>
#include <vector>

#include "catch.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::exits;  // NOLINT
using value::WaitStatus;

namespace {

Origin of_words(std::string_view err) { return origin_of(Record::of(WaitStatus::exited(1)), err); }
Origin of_signal(int signum, std::string_view err = "") {
  return origin_of(Record::of(WaitStatus::killed(signum)), err);
}

FailureFacts failure(value::Idset::Id rank, const char* record, Origin origin, double at, std::uint32_t clock = 0,
                     double uncertainty = 0) {
  FailureFacts out{rank, *Record::parse(record)};
  out.origin = origin;
  out.at = at;
  out.clock = clock;
  out.uncertainty = uncertainty;
  return out;
}

struct Found {
  value::Idset::Id rank;
  bool is_certain;
  std::string others;
  bool operator==(const Found&) const = default;
};
Found found(const std::vector<FailureFacts>& all) {
  Blame blame = first_of(all);
  return {all[blame.first].rank, blame.is_certain, blame.others.str()};
}

constexpr Origin kPeer = Origin::peer;
constexpr Origin kUnknown = Origin::unknown;
constexpr Origin kOwn = Origin::own;

}  // namespace

TEST_CASE("a signal says where a failure came from") {
  for (int signum : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGKILL}) CHECK(of_signal(signum, "Broken pipe\n") == kOwn);
  CHECK(of_signal(SIGPIPE) == kPeer);
  CHECK(of_signal(SIGTERM) == kUnknown);
  CHECK(of_signal(SIGABRT) == kUnknown);
  CHECK(of_signal(SIGABRT, "a.out: a.c:7: main: Assertion `x' failed.\n") == kOwn);
  CHECK(of_signal(SIGABRT,
                  "terminate called after throwing an instance of 'gloo::IoException'\n"
                  "  what():  [pair.cc:525] Read error [::1]:3: Connection reset by peer\n") == kPeer);
  CHECK(origin_of(Record::not_started(127), "") == kOwn);
  CHECK(origin_of(Record::lost(), "") == kUnknown);
}

TEST_CASE("what has lost a connection says so: libc, MPI, UCX, NCCL, gloo, languages") {
  for (const char* words :
       {"recv: Connection reset by peer", "write: Broken pipe", "read: Transport endpoint is not connected",
        "tcp_tx: rank 3: timed out", "Error: unexpected EOF", "read tcp 127.0.0.1:5: i/o timeout",
        "MPIDI_OFI_handle_cq_error(1094): OFI poll failed (Connection reset by peer)",
        "Fatal error in PMPI_Barrier: communication error with rank 3",
        "[n1:7] btl_tcp_endpoint.c:625 An MPI communication peer process has unexpectedly disconnected.",
        "MPI_ERR_PROC_FAILED: Process FailureFacts", "ucp_ep: Endpoint timeout",
        "NCCL WARN socketProgress: Connection closed by remote peer n3<4>", "ncclRemoteError: A call failed",
        "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:4", "failed to recv, got 0 bytes",
        "Err: UnexpectedEof", "rpc error: code = DEADLINE_EXCEEDED"}) {
    INFO(words);
    CHECK(of_words(std::string("step 7\n") + words + "\n") == kPeer);
  }
}

TEST_CASE("what has failed by itself says so, or nothing") {
  CHECK(of_words("thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds\n") == kOwn);
  CHECK(of_words("panic: assignment to entry in nil map\n") == kOwn);
  CHECK(of_words("") == kUnknown);
  CHECK(of_words("input.dat: No such file or directory\n") == kUnknown);
  // Long before its end
  std::string log = "warning: connection reset by peer, I try again\n";
  for (int step = 0; step < 20; ++step) log += "step\n";
  CHECK(of_words(log) == kUnknown);
}

TEST_CASE("of a traceback of Python its exception counts, and those that it came from") {
  const std::string frames =
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    recv(s)\n";
  CHECK(of_words(frames + "ValueError: connection reset\n") == kOwn);
  CHECK(of_words(frames + "RuntimeError: no such layer\n") == kOwn);
  CHECK(of_words(frames + "ConnectionResetError: [Errno 104] Connection reset by peer\n") == kPeer);
  CHECK(of_words(frames + "EOFError\n") == kPeer);
  CHECK(of_words(frames + "RuntimeError: NCCL error\nLast error:\nConnection closed by remote peer\n") == kPeer);
  CHECK(
      of_words("[rank3]: Traceback (most recent call last):\n[rank3]:   File \"a.py\"\n[rank3]: KeyError: 'x'\n") ==
      kOwn);
  // Frames are no words, and what comes after an exception of its own is no part of it.
  CHECK(of_words("Traceback (most recent call last):\n    raise_if_timed_out()  # broken pipe\nTypeError: 3\n") ==
        kOwn);
  CHECK(of_words(frames + "ValueError: 3\nwarning: Connection closed by peer\n") == kOwn);
  // A chain, and none
  CHECK(of_words(frames +
                 "BrokenPipeError: [Errno 32] Broken pipe\n\nDuring handling of the above exception, another "
                 "exception occurred:\n\n" +
                 frames + "RuntimeError: step 3 failed\n") == kPeer);
  CHECK(of_words(frames + "BrokenPipeError: [Errno 32] Broken pipe\nI go on\n" + frames + "RuntimeError: 3\n") ==
        kOwn);
  CHECK(of_words(frames + "ZeroDivisionError: 1\nException ignored in: <_io.TextIOWrapper>\n" + frames +
                 "BrokenPipeError: [Errno 32] Broken pipe\n") == kOwn);
  CHECK(of_words(frames + "KeyboardInterrupt\n") == kUnknown);
}

TEST_CASE("the error file counts before the rest") {
  Record one = Record::of(WaitStatus::exited(1));
  CHECK(origin_of(one, "Connection reset by peer", R"({"message": "no dataset"})") == kOwn);
  CHECK(origin_of(one, "", R"({"message": "Connection closed by peer"})") == kPeer);
}

TEST_CASE("one alone is certain unless it looks like a victim") {
  CHECK(found({failure(3, "x1", kUnknown, 5)}) == Found{3, true, ""});
  CHECK(found({failure(3, "s11", kOwn, 5)}) == Found{3, true, ""});
  CHECK(found({failure(3, "s6+", kUnknown, 5)}) == Found{3, false, ""});
  CHECK(found({failure(3, "s6", kOwn, 5)}) == Found{3, true, ""});
  CHECK(found({failure(3, "x1", kPeer, 5)}) == Found{3, false, ""});
}

TEST_CASE("those that lost another are not the first, though they died before it") {
  std::vector<FailureFacts> all{failure(0, "x1", kPeer, 5.00), failure(2, "x1", kPeer, 5.01),
                                failure(1, "x1", kOwn, 5.30)};
  CHECK(found(all) == Found{1, false, ""});
  all[2].at = 4.99;  // its words came before
  CHECK(found(all) == Found{1, true, "0,2"});
  all[2].origin = kUnknown;
  CHECK(found(all) == Found{1, true, "0,2"});
  all[2].at = 40;  // another time, another cause
  CHECK(found(all) == Found{0, false, "2"});
}

TEST_CASE("times of two clocks count as far as they are known") {
  std::vector<FailureFacts> all{failure(0, "x1", kPeer, 5.010, 1, 0.02), failure(1, "s11", kOwn, 5.000)};
  CHECK(found(all) == Found{1, false, "0"});
  all[0].uncertainty = 0.002;
  CHECK(found(all) == Found{1, true, "0"});
}

TEST_CASE("failures of their own are certain only where they are apart") {
  CHECK(found({failure(0, "x3", kUnknown, 5.0), failure(1, "x9", kUnknown, 5.4)}) == Found{0, true, ""});
  CHECK(found({failure(0, "x3", kUnknown, 5.4), failure(1, "x9", kUnknown, 5.0)}) == Found{1, true, ""});
  CHECK(found({failure(0, "x3", kUnknown, 5.2), failure(1, "x9", kUnknown, 5.0)}) == Found{1, false, ""});
  CHECK(found({failure(0, "s11", kOwn, 5.0), failure(1, "s11", kOwn, 5.1)}) == Found{0, false, ""});
}

TEST_CASE("of one instant, by the way of the lowest rank, and of that way the first by the kernel") {
  for (double shift : {-0.02, 0.0, 0.02}) {
    CHECK(found({failure(2, "x3", kUnknown, 5 + shift), failure(1, "x2", kUnknown, 5),
                 failure(3, "x4", kUnknown, 5)}) == Found{1, false, "2-3"});
  }
  std::vector<FailureFacts> all{failure(0, "x1", kUnknown, 5), failure(1, "x1", kUnknown, 5),
                                failure(2, "x1", kUnknown, 5)};
  CHECK(found(all).rank == 0);
  all[0].order = 3;
  all[1].order = 2;
  all[2].order = 1;
  CHECK(found(all) == Found{2, false, "0-1"});
}

TEST_CASE("of one instant, one with a failure of its own, or the one that is unlike all others") {
  CHECK(found({failure(0, "x1", kUnknown, 5), failure(1, "x1", kOwn, 5.01)}).rank == 1);
  CHECK(found({failure(0, "x1", kOwn, 5.01), failure(1, "x7", kUnknown, 5), failure(2, "x1", kOwn, 5.02)}).rank ==
        1);
}

TEST_CASE("who has ended the job is not the first if it has only lost another") {
  FailureFacts own = failure(1, "x1", kOwn, 5.02);
  CHECK(outweighs(own, failure(0, "x1", kPeer, 5)));
  CHECK(outweighs(own, failure(0, "x1", kUnknown, 5)));
  CHECK_FALSE(outweighs(own, failure(0, "x1", kUnknown, 5.2)));
  CHECK_FALSE(outweighs(own, failure(0, "s11", kOwn, 5)));
  CHECK_FALSE(outweighs(failure(1, "x1", kPeer, 5), failure(0, "x1", kPeer, 5)));
}

TEST_CASE("what is not certain is said so") {
  value::Idset others = value::Idset::range(3, 4);
  CHECK(doubt_of(true, kPeer, others).empty());
  CHECK(doubt_of(false, kOwn, others) == "; task 3-4 failed at about the same time");
  CHECK(doubt_of(false, kPeer, others) == "; its last words speak of another, so it may not be the first");
  CHECK(doubt_of(false, kOwn, {}).empty());
  for (Origin each : {kPeer, kUnknown, kOwn}) CHECK(origin_named(name_of(each)) == each);
  CHECK_FALSE(origin_named("nobody"));
}
