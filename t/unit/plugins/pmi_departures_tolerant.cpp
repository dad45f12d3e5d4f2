// SPDX-License-Identifier: Apache-2.0
//
// PmiDepartures with fault-tolerance: no task's end ends the job.

#include "plugins/pmi/departures.hpp"
#include "pmi_clients.hpp"

using namespace nacre;
using plugins::PmiClients;
using plugins::PmiOptions;
using plugins::tolerant;
using value::WaitStatus;

namespace {

using Texts = std::vector<std::string>;

}  // namespace

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
