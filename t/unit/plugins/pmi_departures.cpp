// SPDX-License-Identifier: Apache-2.0
#include "exits/record.hpp"
#include "plugins/pmi/departures.hpp"
#include "pmi_clients.hpp"

using namespace nacre;
using plugins::PmiClients;
using plugins::PmiOptions;
using plugins::tolerant;
using value::WaitStatus;

using Texts = std::vector<std::string>;

// ---- the end of the job --------------------------------------------------------------------

TEST_CASE("who has finalized may end as it likes, but by a signal") {
  PmiClients job(4);
  job.join_all();
  for (std::uint32_t client = 0; client < 4; ++client) job.finalize(client);
  job.exit(0, 0);
  job.exit(1, 3);
  job.leave(2);
  job.exit(2, 255);
  CHECK(job.raised().empty());
  CHECK_FALSE(job.host.next_timer());
  job.die(3, SIGSEGV);
  CHECK(job.raised() == Texts{"139: client 3 killed by SIGSEGV after PMI finalize!"});
}

TEST_CASE("who ends after init without finalize ends the job, with its own status, and never with 0") {
  struct Case {
    WaitStatus status;
    std::string raised;
  };
  for (const Case& each :
       {Case{WaitStatus::exited(0), "1: client 1 exited with code 0 without PMI finalize!"},
        Case{WaitStatus::exited(3), "3: client 1 exited with code 3 without PMI finalize!"},
        Case{WaitStatus::exited(255), "255: client 1 exited with code 255 without PMI finalize!"},
        Case{WaitStatus::killed(SIGKILL), "137: client 1 killed by SIGKILL without PMI finalize!"}}) {
    PmiClients job(2);
    job.join_all();
    job.exit(1, each.status);
    CHECK(job.raised() == Texts{each.raised});
    CHECK(job.dead(0) == "none");
  }
}

TEST_CASE("what a process has said counts also where it is read only after its end") {
  PmiClients job(3);
  job.write(0, PmiClients::kInit);
  job.write(0, "cmd=finalize");
  job.exit(0, 0);
  CHECK(job.raised().empty());
  job.write(1, PmiClients::kInit);
  job.exit(1, 0);
  CHECK(job.raised() == Texts{"1: client 1 exited with code 0 without PMI finalize!"});
  job.write(2, "cmd=abort exitcode=7 message=late");
  job.exit(2, 0);
  CHECK(job.raised().back() == "7: client 2 called PMI_Abort with code 7: late");
}

TEST_CASE(
    "who was started again on another shell and has ended without init ends the job, once, if others wait for it") {
  PmiClients job(2);
  job.join_all();
  CHECK(job.departures.absent_elsewhere({}));
  CHECK_FALSE(job.departures.absent_elsewhere(value::Idset::range(7, 7)));
  CHECK_FALSE(job.departures.absent_elsewhere(value::Idset::range(7, 7)));
  CHECK(job.raised() ==
        Texts{"1: rank 7, started again on another shell, has ended without PMI init, and the others "
              "wait for it in a barrier!"});
  PmiClients goes_on(2, tolerant());
  goes_on.join_all();
  CHECK(goes_on.departures.absent_elsewhere(value::Idset::range(7, 7)));
  CHECK(goes_on.raised().empty());
}

TEST_CASE("those of a shell that leaves the job are missed by nobody") {
  PmiClients job(2);
  job.join_all();
  job.exit(0, 0);
  CHECK(job.departures.missing_here().str() == "0-1");
  PmiClients left(2);
  left.join_all();
  left.departures.shell_leaves();
  left.exit(0, 0);
  left.die(1, SIGKILL);
  CHECK(left.raised().empty());
  CHECK(left.departures.missing_here().empty());
}

TEST_CASE("a job that does not use PMI is not concerned, however its tasks end") {
  PmiClients job(3);
  job.die(0, SIGKILL);
  job.exit(1, 3);
  job.leave(2);
  job.exit(2, 0);
  CHECK(job.raised().empty());
}

TEST_CASE("who is killed before init ends a job that uses PMI") {
  PmiClients job(2);
  job.join(0);
  job.die(1, SIGTERM);
  CHECK(job.raised() == Texts{"143: client 1 killed by SIGTERM before PMI init!"});
}

TEST_CASE("who exits without init is missed when the others are in a barrier, and they stay there") {
  PmiClients job(3);
  job.join(0);
  job.join(2);
  SECTION("before they come") {
    job.exit(1, 0);
    CHECK(job.raised().empty());
    job.enter(0);
    CHECK(job.raised().empty());
    job.enter(2);
  }
  SECTION("while they are there") {
    job.enter(0);
    job.enter(2);
    CHECK(job.raised().empty());
    job.exit(1, 0);
  }
  SECTION("while they are there, and the end of its connection is seen first") {
    job.enter(0);
    job.leave(1);
    job.enter(2);
    CHECK(job.raised().empty());
    CHECK(job.exchange.fences == 0);
    job.exit(1, 0);
  }
  CHECK(job.raised() ==
        Texts{"1: client 1 exited with code 0 without PMI init, and the others wait for it in a barrier!"});
  CHECK(job.exchange.fences == 0);
  CHECK_FALSE(job.passed(0));
  CHECK_FALSE(job.passed(2));
}

TEST_CASE("of several that exit without init the first is the reason, with its code") {
  PmiClients job(3);
  job.exit(2, 4);
  job.exit(1, 9);
  job.join(0);
  job.enter(0);
  CHECK(job.raised() ==
        Texts{"4: client 2 exited with code 4 without PMI init, and the others wait for it in a barrier!"});
}

TEST_CASE("the others of another node have been in a barrier: who exited here without init is missed") {
  PmiClients job(1, {}, 0, 2);
  job.departures.missed_barrier();
  CHECK(job.raised().empty());
  job.exit(0, 5);
  CHECK(job.raised().empty());
  job.departures.missed_barrier();
  job.departures.missed_barrier();
  CHECK(job.raised() ==
        Texts{"5: client 0 exited with code 5 without PMI init, and the others wait for it in a barrier!"});
}

TEST_CASE("several that end at once: each is named, the first one first, and no barrier is passed any more") {
  PmiClients job(4);
  job.join_all();
  for (std::uint32_t client : {0, 1, 3}) job.enter(client);
  job.die(2, SIGSEGV);
  job.die(1, SIGABRT);
  REQUIRE(job.raised().size() == 2);
  CHECK(job.raised()[0] == "139: client 2 killed by SIGSEGV without PMI finalize!");
  CHECK(job.raised()[1] == "134: client 1 killed by SIGABRT without PMI finalize!");
  CHECK(job.exchange.fences == 0);
  CHECK_FALSE(job.passed(0));
  CHECK_FALSE(job.passed(3));
}

// ---- a connection that is closed -----------------------------------------------------------

TEST_CASE("who closes its connection has two seconds to end, and its end is the reason then") {
  PmiClients job(2);
  job.join_all();
  job.enter(0);
  job.leave(1);
  CHECK(job.host.next_timer() == event::Seconds(2));
  CHECK(job.raised().empty());
  CHECK(job.exchange.fences == 0);  // the other task is not let go before the reason is known
  job.exit(1, 3);
  CHECK(job.raised() == Texts{"3: client 1 exited with code 3 without PMI finalize!"});
  CHECK_FALSE(job.passed(0));
}

TEST_CASE("who has closed its connection and runs on ends the job after two seconds") {
  PmiClients job(3);
  job.join_all();
  job.leave(1);
  job.leave(2);
  job.exit(2, 0);
  job.host.exceptions.clear();  // the job's end is not tested here
  REQUIRE(job.host.serve([&] { return !job.host.exceptions.empty(); }));
  CHECK(job.raised() == Texts{"1: client 1 has closed its connection without PMI finalize!"});
}

TEST_CASE(
    "who closes its connection without init and runs on ends the job once the others have waited two seconds") {
  PmiClients job(2);
  job.join(0);
  job.leave(1);
  CHECK_FALSE(job.host.next_timer());  // no task waits for it
  job.enter(0);
  CHECK(job.host.next_timer() == event::Seconds(2));
  CHECK(job.exchange.fences == 0);
  REQUIRE(job.host.serve([&] { return !job.host.exceptions.empty(); }));
  CHECK(job.raised() ==
        Texts{"1: client 1 has closed its connection without PMI init, and the others wait for it in a barrier!"});
  CHECK_FALSE(job.passed(0));
}

TEST_CASE(
    "a client that is wrong is named; the others' barrier is not let through, and the job ends with its code") {
  PmiClients job(3);
  job.join_all();
  job.enter(0);
  job.enter(1);
  job.say(2, "cmd=nonsense");
  CHECK(job.logged("error") == Texts{"client 2: unknown command 'nonsense': its connection is closed"});
  CHECK_FALSE(job.passed(0));
  CHECK_FALSE(job.passed(1));
  CHECK(job.raised().empty());
  job.exit(2, 6);
  CHECK(job.raised() == Texts{"6: client 2 exited with code 6 without PMI finalize!"});
  CHECK_FALSE(job.passed(0));
}

TEST_CASE("a second barrier before the first is over lets nobody through") {
  PmiClients job(3);
  job.join_all();
  job.enter(1);
  job.say(1, "cmd=barrier_in");
  job.enter(0);
  job.enter(2);
  CHECK_FALSE(job.passed(0));
  CHECK_FALSE(job.passed(2));
  REQUIRE(job.host.serve([&] { return !job.host.exceptions.empty(); }));
  CHECK(job.raised() == Texts{"1: client 1 has closed its connection without PMI finalize!"});
  CHECK_FALSE(job.passed(0));
}

TEST_CASE("a client that is wrong before init holds up the barrier of the others until it is known how it ends") {
  PmiClients job(2);
  job.join(0);
  job.say(1, "cmd=nonsense");
  CHECK_FALSE(job.host.next_timer());
  job.enter(0);
  CHECK_FALSE(job.passed(0));
  job.exit(1, 4);
  CHECK(job.raised() ==
        Texts{"4: client 1 exited with code 4 without PMI init, and the others wait for it in a barrier!"});
  CHECK_FALSE(job.passed(0));
}

TEST_CASE("a client that is wrong after finalize is missed by nobody") {
  PmiClients job(2);
  job.join_all();
  job.finalize(1);
  job.say(1, "cmd=nonsense");
  job.enter(0);
  CHECK(job.passed(0));
  CHECK(job.raised().empty());
}

TEST_CASE("the list of the lost is there from the start, empty, and no client can put it") {
  for (const PmiOptions& options : {PmiOptions(), tolerant()}) {
    PmiClients job(1, options);
    job.join(0);
    CHECK(job.ask(0, "cmd=get kvsname=kvs key=PMI_dead_processes") == "cmd=get_result rc=0 value=");
    CHECK(job.ask(0, "cmd=put kvsname=kvs key=PMI_dead_processes value=0").starts_with("cmd=put_result rc=-1 "));
  }
}

// ---- abort -----------------------------------------------------------------------------------

TEST_CASE("an abort ends the job with the program's code and words, with fault-tolerance too, and never with 0") {
  struct Case {
    std::string said;
    std::string raised;
  };
  for (const PmiOptions& options : {PmiOptions(), tolerant()}) {
    for (const Case& each : {Case{"cmd=abort exitcode=19 message=out\\ of\\ luck",
                                  "19: client 1 called PMI_Abort with code 19: out of luck"},
                             Case{"cmd=abort", "1: client 1 called PMI_Abort with code 1"},
                             Case{"cmd=abort exitcode=0", "1: client 1 called PMI_Abort with code 0"},
                             Case{"cmd=abort exitcode=255", "255: client 1 called PMI_Abort with code 255"},
                             Case{"cmd=abort exitcode=256", "255: client 1 called PMI_Abort with code 256"},
                             Case{"cmd=abort exitcode=300", "44: client 1 called PMI_Abort with code 300"},
                             Case{"cmd=abort exitcode=-1", "255: client 1 called PMI_Abort with code -1"},
                             Case{"cmd=abort exitcode=-512", "255: client 1 called PMI_Abort with code -512"}}) {
      PmiClients job(2, options);
      job.join_all();
      job.say(1, each.said);
      CHECK(job.raised() == Texts{each.raised});
    }
  }
}

TEST_CASE("control bytes of an abort's message do not reach the terminal") {
  PmiClients job(1);
  job.join(0);
  job.say(0, "cmd=abort exitcode=3 message=\x1b[2Jred\x07");
  CHECK(job.raised() == Texts{"3: client 0 called PMI_Abort with code 3: \\x1b[2Jred\\x07"});
}

TEST_CASE("an abort ends the job at any time: before init, in a barrier of the others, after finalize") {
  PmiClients job(2);
  job.say(1, "cmd=abort exitcode=2");
  job.join_all();
  job.enter(0);
  job.say(1, "cmd=abort exitcode=3");
  job.enter(1);
  job.finalize(1);
  job.say(1, "cmd=abort exitcode=4");
  CHECK(job.raised() == Texts{"2: client 1 called PMI_Abort with code 2",
                              "3: client 1 called PMI_Abort with code 3",
                              "4: client 1 called PMI_Abort with code 4"});
}

TEST_CASE("the code of a failure is never 0") {
  CHECK(exits::failure_code(0) == 1);
  for (int code : {1, 2, 127, 128, 254, 255}) CHECK(exits::failure_code(code) == code);
  CHECK(exits::failure_code(256) == 255);
  CHECK(exits::failure_code(257) == 1);
  CHECK(exits::failure_code(-1) == 255);
  CHECK(exits::failure_code(-2) == 254);
  CHECK(exits::failure_code(-256) == 255);
  CHECK(exits::failure_code(INT64_MIN) == 255);
  CHECK(exits::failure_code(INT64_MAX) == 255);
}

// PmiDepartures with fault-tolerance: no task's end ends the job.

TEST_CASE("fault-tolerance: nobody's end ends the job, and the lost are listed in their order") {
  PmiClients job(6, tolerant(), 10, 20);
  std::vector<std::uint32_t> told;
  job.departures.when_lost([&](std::uint32_t rank) { told.push_back(rank); });
  for (std::uint32_t client : {0, 1, 2, 3, 4}) job.join(client);
  job.finalize(1);
  CHECK(job.dead(0) == "none");
  job.die(3, SIGKILL);
  CHECK(job.dead(0) == "13");
  job.exit(1, 7);  // has finalized
  job.exit(2, 0);
  CHECK(job.dead(0) == "13,12");
  job.exit(5, 1);  // without init, in a job that uses PMI
  CHECK(job.dead(4) == "13,12,15");
  CHECK(job.raised().empty());
  CHECK(told == std::vector<std::uint32_t>{13, 12, 15});
  CHECK(job.logged("warn") == Texts{"client 3 is lost; the others go on", "client 2 is lost; the others go on",
                                    "client 5 is lost; the others go on"});
}

TEST_CASE("fault-tolerance: a closed connection is a loss at once, told once, before the others' barrier is over") {
  PmiClients job(3, tolerant());
  job.join_all();
  job.exchange.answers = false;
  job.enter(0);
  job.enter(1);
  Texts order;
  job.departures.when_lost(
      [&](std::uint32_t rank) { order.push_back(fmt::format("{} after {} barriers", rank, job.exchange.fences)); });
  job.leave(2);
  CHECK_FALSE(job.host.next_timer());
  CHECK(job.exchange.fences == 1);
  job.exit(2, 0);
  CHECK(order == Texts{"2 after 0 barriers"});
  job.exchange.waiting[0](pmi::Entries());
  CHECK(job.passed(0));
  CHECK(job.dead(1) == "2");
}

TEST_CASE("fault-tolerance: a client that is wrong is lost before the others' barrier is over") {
  PmiClients job(2, tolerant());
  job.join_all();
  job.enter(0);
  Texts order;
  job.departures.when_lost(
      [&](std::uint32_t rank) { order.push_back(fmt::format("{} after {} barriers", rank, job.exchange.fences)); });
  job.say(1, "cmd=nonsense");
  CHECK(order == Texts{"1 after 0 barriers"});
  CHECK(job.passed(0));
  CHECK(job.dead(0) == "1");
}

TEST_CASE("fault-tolerance: several that end at once are all listed, in the order in which they are seen") {
  PmiClients job(5, tolerant());
  job.join_all();
  for (std::uint32_t client : {4, 1, 3}) job.ends[client].reset();
  for (std::uint32_t client : {4, 1, 3}) job.die(client, SIGKILL);
  CHECK(job.dead(0) == "4,1,3");
  CHECK(job.logged("warn").size() == 3);
}

TEST_CASE("fault-tolerance: who asks for the list has it with all whose connections have ended") {
  PmiClients job(4, tolerant());
  job.join_all();
  for (std::uint32_t client : {2, 3}) job.ends[client].reset();  // the shell has not looked yet
  CHECK(job.dead(0) == "2,3");
}

TEST_CASE("fault-tolerance: who exits without init is lost when the others come to a barrier, and they go on") {
  PmiClients job(2, tolerant());
  job.exit(1, 3);  // before any task uses PMI
  job.join(0);
  CHECK(job.dead(0) == "none");
  job.enter(0);
  CHECK(job.passed(0));
  CHECK(job.dead(0) == "1");
  CHECK(job.raised().empty());
}

TEST_CASE("fault-tolerance: who closes its connection without init is lost when the others come to a barrier") {
  PmiClients job(2, tolerant());
  job.join(0);
  job.leave(1);
  CHECK(job.dead(0) == "none");
  job.enter(0);
  CHECK(job.passed(0));
  CHECK(job.dead(0) == "1");
  CHECK_FALSE(job.host.next_timer());
}

TEST_CASE("fault-tolerance: the others of another node have been in a barrier that this one has missed") {
  PmiClients job(2, tolerant(), 4, 8);
  std::vector<std::uint32_t> told;
  job.departures.when_lost([&](std::uint32_t rank) { told.push_back(rank); });
  job.exit(1, 3);
  CHECK(told.empty());
  job.departures.missed_barrier();
  job.departures.missed_barrier();
  CHECK(told == std::vector<std::uint32_t>{5});
}

TEST_CASE("who is lost with its shell is listed also without fault-tolerance, once; not if the job ends") {
  PmiClients job(2, plugins::PmiOptions(), 0, 6);
  job.join_all();
  job.departures.lost_elsewhere(3);
  CHECK(job.dead(0) == "none");
  job.departures.lost_with_shell(5);
  job.departures.lost_with_shell(4);
  job.departures.lost_with_shell(5);
  CHECK(job.dead(0) == "5,4");
  CHECK(job.raised().empty());
  job.die(1, SIGKILL);
  job.departures.lost_with_shell(2);
  CHECK(job.dead(0) == "5,4");
}

TEST_CASE("fault-tolerance: who is lost elsewhere is listed once, and not told again") {
  PmiClients job(2, tolerant(), 0, 6);
  std::vector<std::uint32_t> told;
  job.departures.when_lost([&](std::uint32_t rank) {
    told.push_back(rank);
    job.departures.lost_elsewhere(rank);  // all shells hear of it, also this one
  });
  job.join_all();
  job.departures.lost_elsewhere(5);
  job.departures.lost_elsewhere(5);
  job.die(1, SIGKILL);
  job.departures.lost_elsewhere(3);
  CHECK(job.dead(0) == "5,1,3");
  CHECK(told == std::vector<std::uint32_t>{1});
}

TEST_CASE("without fault-tolerance a loss elsewhere is not this shell's matter") {
  PmiClients job(1, {}, 0, 2);
  job.join(0);
  job.departures.lost_elsewhere(1);
  CHECK(job.dead(0) == "none");
  CHECK(job.raised().empty());
}

TEST_CASE("fault-tolerance.signal: those in the job get it for each loss, once the list has the lost one") {
  PmiClients job(5, tolerant(SIGUSR1), 0, 8);
  for (std::uint32_t client : {0, 1, 2, 3}) job.join(client);
  job.finalize(1);
  Texts list;
  job.processes.on_kill = [&](std::uint32_t client) { list.push_back(job.dead(client)); };
  job.die(2, SIGKILL);
  CHECK(job.processes.killed == Texts{"0 by 10", "3 by 10"});  // not the tasks that have finalized, or have not
                                                               // begun
  CHECK(list == Texts{"2", "2"});
  job.processes.killed.clear();
  job.departures.lost_elsewhere(7);
  CHECK(job.processes.killed == Texts{"0 by 10", "3 by 10"});
  CHECK(list.back() == "2,7");
}

TEST_CASE("fault-tolerance.signal: who has closed its connection is not sent the signal for itself") {
  PmiClients job(2, tolerant(SIGUSR1));
  job.join_all();
  job.leave(1);
  CHECK(job.processes.killed == Texts{"0 by 10"});
}

TEST_CASE("fault-tolerance: who goes while the job is being ended is no loss") {
  PmiClients job(4, tolerant(SIGUSR1), 0, 8);
  job.join_all();
  job.die(3, SIGKILL);
  bool told = false;
  job.departures.when_lost([&](std::uint32_t) { told = true; });
  job.processes.killed.clear();
  job.host.deaths.emplace_back("1 shell: the job is ended");
  job.die(1, SIGTERM);
  job.leave(2);
  job.departures.lost_elsewhere(7);
  CHECK_FALSE(told);
  CHECK(job.processes.killed.empty());
  CHECK(job.dead(0) == "3");
  CHECK(job.logged("warn").size() == 1);
  CHECK(job.raised().empty());
}

TEST_CASE(
    "all start again: who was lost before is forgotten, and who is lost with its shell since is in the new list") {
  PmiClients job(2, tolerant(), 0, 4);
  job.join_all();
  job.departures.lost_elsewhere(2);
  CHECK(job.dead(0) == "2");
  job.departures.all_start_again();
  job.departures.lost_elsewhere(2);  // it ends as all do
  job.departures.lost_with_shell(3);
  job.departures.forget();
  job.departures.attach(*job.group);
  CHECK(job.dead(0) == "3");
  job.departures.lost_elsewhere(2);
  CHECK(job.dead(0) == "3,2");
}

TEST_CASE("fault-tolerance: a list that is too long for a value stays as it is, and that is said once") {
  constexpr std::uint32_t kRanks = 400;
  PmiClients job(1, tolerant(), 0, 100000 + kRanks);
  job.join(0);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) job.departures.lost_elsewhere(100000 + rank);
  std::string list = job.dead(0);
  CHECK(list.starts_with("100000,100001,"));
  CHECK(list.ends_with(",100145"));
  CHECK(list.size() == 146 * 7 - 1);  // 1023 at most
  CHECK(job.logged("warn") == Texts{"PMI_dead_processes has no room for rank 100146 and those that are lost after "
                                    "it: it stays with the first 146"});
}
