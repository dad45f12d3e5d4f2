// SPDX-License-Identifier: Apache-2.0
#include "job/rehearsal.hpp"

#include "catch.hpp"

using nacre::job::Rehearsal;
using nacre::job::RehearsalEvent;
using Action = RehearsalEvent::Action;

TEST_CASE("events of a rehearsal", "[rehearsal]") {
  auto rehearsal =
      Rehearsal::parse("kill n2 at 30s; freeze rank 5 at 10s for 5s;kill ranks 0-3,7 at 4s with SIGSEGV").value();
  REQUIRE(rehearsal.events().size() == 3);
  const auto& [node, frozen, ranks] = std::tie(rehearsal.events()[0], rehearsal.events()[1], rehearsal.events()[2]);
  CHECK(node.action == Action::kill);
  CHECK(node.node == "n2");
  CHECK(node.ranks.empty());
  CHECK(node.at.seconds() == 30);
  CHECK(frozen.action == Action::freeze);
  CHECK(frozen.ranks.str() == "5");
  CHECK(frozen.lasts->seconds() == 5);
  CHECK(ranks.signal == SIGSEGV);
  CHECK(ranks.ranks.str() == "0-3,7");
  CHECK(node.str() == "kill n2 at 30s");
  CHECK(frozen.str() == "freeze rank 5 at 10s for 5s");
  CHECK(ranks.str() == "kill rank 0-3,7 with SIGSEGV at 4s");

  auto least = Rehearsal::parse("  freeze\trank 0\n").value();
  CHECK(least.events()[0].at.seconds() == 0);
  CHECK_FALSE(least.events()[0].lasts);
  CHECK(Rehearsal::parse("kill rank 1 with 11").value().events()[0].signal == 11);
  CHECK(Rehearsal::parse("freeze n1 for 2s at 1s").value().events()[0].at.seconds() == 1);
}

TEST_CASE("what is no rehearsal: where, and what was expected there", "[rehearsal]") {
  auto fails = [](const std::string& text, const std::string& why) {
    auto parsed = Rehearsal::parse(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message == why);
  };
  fails("", "at character 1: expected kill, freeze or cut, got the end");
  fails("stop n1", "at character 1: expected kill, freeze or cut, got 'stop'");
  fails("cut", "at character 4: expected a node, or NODE-NODE, got the end");
  fails("cut rank 1 for 2s", "at character 5: expected a node, or NODE-NODE, got 'rank'");
  fails("cut n1 with 9", "at character 8: expected at TIME, for TIME, ';' or the end, got 'with'");
  fails("kill", "at character 5: expected a node, or rank and ranks, got the end");
  fails("kill ; freeze n1", "at character 6: expected a node, or rank and ranks, got ';'");
  fails("kill rank x", "at character 11: expected ranks, as 5 or 0-3,7, got 'x'");
  fails("kill rank", "at character 10: expected ranks, as 5 or 0-3,7, got the end");
  fails("kill n1 at soon", "at character 12: expected a time of at most 30 days, as 10s or 1.5m, got 'soon'");
  fails("kill n1 at", "at character 11: expected a time of at most 30 days, as 10s or 1.5m, got the end");
  fails("kill n1 at 31d", "at character 12: expected a time of at most 30 days, as 10s or 1.5m, got '31d'");
  fails("kill n1 at inf", "at character 12: expected a time of at most 30 days, as 10s or 1.5m, got 'inf'");
  fails("kill n1 for 2s", "at character 9: expected at TIME, ';' or the end, got 'for'");
  fails("kill n1 with 9", "at character 9: expected at TIME, ';' or the end, got 'with'");
  fails("kill rank 1 with NO",
        "at character 18: expected the name or the number of a signal, as SIGSEGV or 11, got 'NO'");
  fails("kill rank 1 at 1s at 2s", "at character 19: expected with SIGNAL, at TIME, ';' or the end, got 'at'");
  fails("freeze n1 at 1s", "at character 16: expected for TIME, as nobody else lets a node go on, got the end");
  fails("freeze rank 1 with 9", "at character 15: expected at TIME, for TIME, ';' or the end, got 'with'");
  fails("kill n1;", "at character 9: expected kill, freeze or cut, got the end");
  std::string many = "kill n1";
  for (std::size_t i = 1; i < Rehearsal::kMostEvents; ++i) many += ";kill n1";
  CHECK(Rehearsal::parse(many));
  fails(many + ";kill n1", "at character 513: expected at most 64 events, got 'kill'");
  fails(std::string(Rehearsal::kMostText + 1, ' '), "is longer than 4096 bytes");
}

TEST_CASE("nodes and ranks have to be of the job", "[rehearsal]") {
  nacre::job::Job job;
  for (const char* host : {"a", "n7", "b", "b"}) job.resources.nodes.push_back({0, host, {}, {}, {}});
  job.taskmap = nacre::value::Taskmap::parse(R"([[0,4,2,1]])").value();
  auto shells = [&](const char* text) {
    auto parsed = Rehearsal::parse(text).value();
    auto out = Rehearsal::shells_of(parsed.events()[0], job);
    return out ? out->str() : out.error().message;
  };
  CHECK(shells("kill a") == "0");
  CHECK(shells("kill n7") == "1");  // a host of that name
  CHECK(shells("kill n3") == "3");
  CHECK(shells("kill b") == "2-3");
  CHECK(shells("kill n4") == "kill n4: 'n4' is no node of the job: expected a host of it, or n0 to n3");
  CHECK(shells("kill rank 1") == "");
  auto sides = [&](const char* text) {
    auto parsed = Rehearsal::parse(text).value();
    auto out = Rehearsal::sides_of(parsed.events()[0], job);
    return out ? out->one.str() + "/" + out->other.str() : out.error().message;
  };
  CHECK(sides("cut a-n7 for 2s") == "0/1");
  CHECK(sides("cut a-b") == "0/2-3");
  CHECK(sides("cut b") == "2-3/0-1");
  CHECK(sides("cut a-x at 1s") ==
        "cut a-x at 1s: 'a-x' is no node of the job, and no two with '-' between them: expected hosts of it, or n0 "
        "to n3");
  job.resources.nodes[0].hostname = "log-in";
  job.resources.nodes[1].hostname = "a-b-c";
  CHECK(sides("cut log-in-a-b-c") == "0/1");
  CHECK(sides("cut a-b-c") == "1/0,2-3");
  CHECK_FALSE(Rehearsal::parse("cut a-b-c; cut x").value().check(job));
  CHECK(Rehearsal::parse("kill rank 7; kill b; cut b-n1").value().check(job));
  CHECK(Rehearsal::parse("kill rank 7; kill rank 6-8 at 2s").value().check(job).error().message ==
        "kill rank 6-8 at 2s: there is no rank 8: the job has ranks 0-7");
}
