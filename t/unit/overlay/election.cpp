// SPDX-License-Identifier: Apache-2.0
//
// "Who leads" of doc/protocol.md: how members choose another leader, and what a leader may do before all have it.
#include "overlay/node.hpp"

#include "catch.hpp"

#include "bench.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

namespace {

constexpr milliseconds kLost{6000};  // longer than a leader may be silent

struct Voting : Bench {
  explicit Voting(Id self, std::uint32_t count = 3) : Bench(given(self, count)) {
    if (self != 0) above(0);
    asks();
  }
  // Of two, with somebody outside who says which of them goes on.
  static OverlayOptions pair(Id self) {
    OverlayOptions out = given(self, 2);
    out.has_arbiter = true;
    return out;
  }
  explicit Voting(const OverlayOptions& options) : Bench(options) {
    if (options.self != 0) above(0);
    asks();
  }
  static OverlayOptions given(Id self, std::uint32_t count) {
    OverlayOptions out = options(self, count, false);
    out.hands_over = true;
    return out;
  }
  void vote(Id by, std::uint64_t ballot, bool trial) {
    say({by, Side::down}, Vote{ballot, node.options().self, trial, Idset::range(by, by)});
  }
};

}  // namespace

TEST_CASE("the lowest slot that lives asks to lead, and does with the votes of more than half") {
  Voting one(1);
  one.wait(kLost);
  CHECK_FALSE(one.node.leads());
  one.below(2);
  CHECK_THAT(one.asks(), Catch::Matchers::ContainsSubstring("v2 WELCOME; v2 CLAIM"));
  one.wait(milliseconds(500));
  const std::string asked = one.asks();
  CHECK_THAT(asked, Catch::Matchers::ContainsSubstring("on trial"));
  const std::uint64_t ballot = std::stoull(asked.substr(asked.find("CLAIM ") + 6));
  one.vote(2, ballot, true);
  CHECK_THAT(one.asks(), Catch::Matchers::StartsWith(fmt::format("v2 CLAIM {} of 1", ballot + 1)));
  CHECK_FALSE(one.node.leads());
  one.vote(2, ballot, true);  // an earlier trial does not count
  one.vote(2, ballot + 1, true);
  CHECK_FALSE(one.node.leads());
  one.vote(2, ballot + 1, false);
  CHECK(one.node.leads());
  CHECK(one.node.term() == ballot + 1);
  CHECK(one.node.tree().leader() == 1);
  CHECK_FALSE(one.node.tree().has(0));
  CHECK_THAT(one.asks(), Catch::Matchers::ContainsSubstring("v2 entry 1"));
}

TEST_CASE("a leader that is only silent is waited for longer if it is said so, and one that has ended is not") {
  for (const bool is_sure : {false, true}) {
    OverlayOptions patient = Voting::given(1, 3);
    patient.leader_silences = 3;
    Voting one(patient);
    one.entry(0, 1, Event{"a", ""});
    one.below(2, 1);
    if (is_sure) {
      one.node.unlinked({0, Side::up});
      one.node.leader_refuses();
    }
    one.wait(kLost);
    one.wait(milliseconds(500));
    CHECK((one.asks().find("CLAIM") != std::string::npos) == is_sure);
    if (is_sure) continue;
    one.wait(2 * patient.silent_bound);
    one.wait(milliseconds(500));
    CHECK_THAT(one.asks(), Catch::Matchers::ContainsSubstring("CLAIM"));
  }
}

TEST_CASE("one of three without votes never leads, and ends") {
  Voting one(1);
  one.wait(milliseconds(29'000));
  CHECK_FALSE(one.node.leads());
  CHECK(one.node.stage() == Stage::member);
  one.wait(milliseconds(2000));
  CHECK(one.node.stage() == Stage::over);
}

TEST_CASE("one of two asks the arbiter, once, and leads if that agrees") {
  Voting one(Voting::pair(1));
  one.wait(kLost);
  one.wait(milliseconds(3000));
  const std::string asked = one.asks();
  CHECK_THAT(asked, Catch::Matchers::ContainsSubstring("ask about 0"));
  CHECK(asked.find("ask about") == asked.rfind("ask about"));
  CHECK_FALSE(one.node.leads());
  one.node.arbiter_agrees(Idset::range(7, 7));
  CHECK_FALSE(one.node.leads());
  one.node.arbiter_agrees(Idset::range(0, 0));
  CHECK(one.node.leads());
  CHECK_FALSE(one.node.tree().has(0));
}

TEST_CASE("one of two whom the arbiter does not answer never leads, and ends") {
  Voting one(Voting::pair(1));
  one.wait(milliseconds(29'000));
  CHECK_FALSE(one.node.leads());
  one.wait(milliseconds(2000));
  CHECK(one.node.stage() == Stage::over);
}

TEST_CASE("a leader that has lost the other one goes on if the arbiter agrees, and else ends") {
  for (const bool agrees : {true, false}) {
    Voting lead(Voting::pair(0));
    lead.below(1);
    lead.node.suspect(1);
    CHECK_THAT(lead.asks(), Catch::Matchers::ContainsSubstring("ask about 1"));
    CHECK(lead.node.tree().has(1));
    if (agrees) lead.node.arbiter_agrees(Idset::range(1, 1));
    CHECK(lead.node.tree().has(1) != agrees);
    lead.wait(milliseconds(31'000));
    CHECK((lead.node.stage() == Stage::over) != agrees);
  }
}

TEST_CASE("the leader's process has ended: nobody waits for its silence") {
  Voting one(1);
  one.entry(0, 1, Event{"a", ""});
  one.below(2, 1);
  one.asks();
  one.node.unlinked({0, Side::up});
  one.node.leader_refuses();
  CHECK_THAT(one.asks(), Catch::Matchers::ContainsSubstring("v2 CLAIM 4 of 1 on trial"));
}

TEST_CASE(
    "the end of the leader's link, seen as the leader is missed, is not that of the link that is dialled next") {
  Voting one(1);
  one.wait(milliseconds(5000));
  one.asks();
  one.wait(milliseconds(500));
  one.node.unlinked({0, Side::up});
  CHECK_THAT(one.asks(), Catch::Matchers::EndsWith("^0 BYE 0; hang up ^0; dial 0"));
  one.node.linked({0, Side::up});
  CHECK(one.asks() == "^0 HELLO suspects 0");
}

TEST_CASE("who votes promises a term: it follows no other candidate, and takes nothing of the leader before") {
  Voting two(2);
  two.wait(kLost);
  two.above(1);
  two.asks();
  two.say({1, Side::up}, Claim{4, 1, 0, 3, true, false});
  CHECK(two.asks() == "^1 VOTE 4 for 1 by 2");
  CHECK(two.node.term() == 3);
  two.say({1, Side::up}, Claim{5, 1, 0, 3, false, false}, 5);
  CHECK(two.asks() == "^1 VOTE 5 for 1 by 2");
  CHECK(two.node.term() == 5);
  two.say({1, Side::up}, Claim{5, 0, 0, 3, false, false}, 5);
  CHECK(two.asks() == "^1 VOTE 5 for 0 by ");
  two.say({1, Side::up}, Entry{1, {}, Event{"late", ""}}, 5);
  CHECK(two.node.applied() == 1);
  two.say({1, Side::up}, Entry{2, {}, Event{"of the leader before", ""}}, 3);
  CHECK(two.node.applied() == 1);
}

TEST_CASE("who misses no leader does not vote") {
  Voting four(4, 7);
  four.above(1);
  four.say({1, Side::up}, Beat{1, 0, {}});
  four.asks();
  four.say({1, Side::up}, Claim{4, 1, 0, 3, true, false});
  CHECK(four.asks().empty());
  four.wait(kLost + milliseconds(1000));
  CHECK_THAT(four.asks(), Catch::Matchers::ContainsSubstring("^1 VOTE 4 for 1 by 4"));
}

TEST_CASE("a candidate gets the entries that it lacks") {
  Voting two(2);
  two.entry(0, 1, Event{"a", ""});
  two.entry(0, 2, Event{"b", ""});
  two.wait(kLost);
  two.above(1);
  two.asks();
  two.say({1, Side::up}, Claim{4, 1, 1, 3, true, false});
  CHECK(two.asks() == "^1 entry 2");
  Voting one(1);
  one.entry(0, 1, Event{"a", ""});
  one.wait(kLost);
  one.below(2, 2);
  one.asks();
  one.say({2, Side::down}, Entry{2, {}, Event{"b", ""}});
  CHECK(one.node.applied() == 2);
}

TEST_CASE("who has an entry that never happened is sent away") {
  Voting one(1, 5);
  one.entry(0, 1, Event{"a", ""});
  one.say({0, Side::up}, Entry{2, {}, View{{}, {}, members("3"), 0}}, 4);
  one.node.linked({2, Side::down});
  one.asks();
  one.say({2, Side::down}, Hello{2, Standing::member, 2, 0, "", {}, 3});
  CHECK_THAT(one.asks(), Catch::Matchers::ContainsSubstring("v2 BYE 1"));
}

TEST_CASE("who has another entry in the place of the new leader's first one is sent away when that is appended") {
  Voting one(1, 5);
  one.wait(kLost);
  one.below(2, 1);  // the lost leader has told it more than the others
  one.below(3);
  one.below(4);
  one.wait(milliseconds(500));
  const std::string asked = one.asks();
  const std::uint64_t ballot = std::stoull(asked.substr(asked.rfind("CLAIM ") + 6));
  one.vote(3, ballot, true);
  one.vote(4, ballot, true);
  one.wait(milliseconds(500));
  one.asks();
  one.vote(3, ballot + 1, false);
  one.vote(4, ballot + 1, false);
  REQUIRE(one.node.leads());
  const std::string told = one.asks();
  CHECK_THAT(told, Catch::Matchers::ContainsSubstring("v3 entry 1"));
  CHECK_THAT(told, Catch::Matchers::ContainsSubstring("v2 BYE 1"));
  REQUIRE(one.node.request(Event{"a", ""}).has_value());
  CHECK_THAT(one.asks(), !Catch::Matchers::ContainsSubstring("v2 entry"));
}

TEST_CASE("who is fed another entry in the place of one that it has, of a later term, says HELLO again") {
  Voting three(3, 7);
  three.above(1);
  three.entry(1, 1, Event{"of a leader that is lost", ""});
  three.asks();
  three.say({1, Side::up}, Entry{1, {}, View{{}, {}, members("0"), 1}}, 5);
  CHECK(three.asks() == "hang up ^1; dial 1");
}

TEST_CASE("a leader shows what it appends once all members have it, and in the order of the log") {
  Voting leader(0);
  leader.below(1);
  leader.below(2);
  leader.asks();
  REQUIRE(leader.node.request(Event{"a", ""}));
  CHECK(leader.asks() == "v1 entry 1; v2 entry 1");
  REQUIRE(leader.node.request(Signal{15, std::nullopt}));
  CHECK(leader.asks() == "v1 entry 2; v2 entry 2");
  leader.say({1, Side::down}, Up{0, 2, {}, {}, {}, {}, {}});
  CHECK(leader.asks().empty());
  leader.say({2, Side::down}, Up{0, 2, {}, {}, {}, {}, {}});
  CHECK(leader.asks() == "complete 2; deliver 1; deliver 2");
}

TEST_CASE("a leader that stood still for long shows nothing more until all members have an entry of now") {
  Voting leader(0);
  leader.below(1);
  leader.below(2);
  leader.asks();
  CHECK_FALSE(leader.node.is_late(leader.now));
  leader.stand_still(milliseconds(2000));  // not long enough for another leader
  CHECK_FALSE(leader.node.withholds());
  CHECK(leader.node.is_late(leader.now + milliseconds(4000)));
  leader.stand_still(milliseconds(4000));
  CHECK(leader.node.withholds());
  CHECK(leader.asks() == "v1 entry 1; v2 entry 1");
  leader.say({1, Side::down}, Up{0, 1, {}, {}, {}, {}, {}});
  CHECK(leader.node.withholds());
  leader.say({2, Side::down}, Up{0, 1, {}, {}, {}, {}, {}});
  CHECK_FALSE(leader.node.withholds());
  CHECK(leader.asks() == "complete 1; deliver 1");
}

TEST_CASE("a leader that reaches less than half declares nobody dead, and ends") {
  Voting leader(0, 7);
  for (Id id : {1, 2}) leader.below(id);
  leader.asks();
  for (Id id : {1, 2}) leader.say({id, Side::down}, Beat{1, 0, {}});
  leader.wait(milliseconds(10'000));
  CHECK(leader.node.tree().size() == 7);
  leader.wait(milliseconds(30'000));
  CHECK(leader.node.stage() == Stage::over);
  CHECK(leader.node.tree().size() == 7);
}

TEST_CASE("a view of less than half is complete once those that it takes out have gone") {
  Voting leader(0);
  for (Id id : {1, 2}) {
    leader.below(id);
    leader.say({id, Side::down}, Up{});
  }
  leader.asks();
  REQUIRE(leader.node.request(Shrink{members("1-2")}));
  CHECK(leader.node.complete() == 0);
  CHECK_THAT(leader.asks(), !Catch::Matchers::ContainsSubstring("deliver"));
  Up up;
  for (Id id : {1, 2}) {
    up.gone = Idset::range(id, id);
    leader.say({id, Side::down}, up);
    leader.node.unlinked({id, Side::down});
  }
  CHECK_THAT(leader.asks(), Catch::Matchers::ContainsSubstring("deliver 1"));
  CHECK(leader.node.complete() >= 1);
}

TEST_CASE("members hear at once that a view is complete, as the leader may be lost next") {
  Voting leader(0, 4);
  for (Id id : {1, 2, 3}) {
    leader.below(id);
    leader.say({id, Side::down}, Up{});
  }
  REQUIRE(leader.node.request(Shrink{members("3")}));
  CHECK(leader.node.view() == 1);
  leader.beats(Side::down);
  leader.say({1, Side::down}, Up{1, 1, {}, {}, {}, {}, {}});
  CHECK(leader.beats(Side::down).empty());
  leader.say({2, Side::down}, Up{1, 1, {}, {}, {}, {}, {}});
  CHECK(leader.node.complete() >= 1);
  const std::string told = leader.beats(Side::down);
  CHECK_THAT(told, Catch::Matchers::StartsWith("v1 "));
  CHECK_THAT(told, Catch::Matchers::ContainsSubstring("; v2 "));
}

TEST_CASE("a newcomer is told of the views before its own that need a majority, too") {
  Voting leader(0, 2);
  leader.below(1);
  REQUIRE(leader.node.request(Grow{members("5"), 3000}));
  leader.node.linked({5, Side::down});
  leader.say({5, Side::down}, Hello{5, Standing::joining, 0, 0, "h:5", {}});
  std::vector<Quorum> told;
  for (const Effect& each : leader.node.take_effects()) {
    const auto* send = std::get_if<Send>(&each);
    const auto* welcome = send != nullptr ? std::get_if<Welcome>(&send->message.body) : nullptr;
    if (welcome != nullptr && welcome->snapshot) told = welcome->snapshot->quorums;
  }
  CHECK(told == std::vector<Quorum>{{0, members("0-1")}, {1, members("0-1,5")}});
}

TEST_CASE("a leader that hears of a later term ends at once") {
  Voting leader(0);
  leader.below(1);
  leader.say({1, Side::down}, Beat{1, 0, {}}, 5);
  CHECK(leader.node.stage() == Stage::over);
}

TEST_CASE("more than half chooses a leader, half keeps one; who has left does not count") {
  Quorums quorums;
  quorums.add(0, members("0-3"));
  CHECK_FALSE(quorums.may_choose(members("0-1"), {}));
  CHECK(quorums.may_lead(members("0-1"), {}));
  CHECK(quorums.may_choose(members("0-1"), members("3")));
  CHECK_FALSE(quorums.may_lead(members("0"), {}));
  quorums.add(5, members("0-1"));
  CHECK(quorums.first_open() == 5);
  quorums.complete(4);
  CHECK_FALSE(quorums.may_choose(members("0-1"), {}));  // not all members may have the second entry
  quorums.complete(5);
  CHECK(quorums.may_choose(members("0-1"), {}));
  CHECK(quorums.first_open() == kNoEnd);
}

// Two members with different views may feed each other.
TEST_CASE("who is fed its own claim leaves that feeder, and does not dial it again at once") {
  Voting two(2, 5);
  two.wait(kLost);
  two.above(1);
  two.asks();
  two.say({1, Side::up}, Claim{9, 2, 0, 0, true, false});
  const std::string asked = two.asks();
  CHECK_THAT(asked, Catch::Matchers::StartsWith("^1 BYE 0; hang up ^1"));
  CHECK_THAT(asked, !Catch::Matchers::ContainsSubstring("dial 1"));
  two.wait(milliseconds(1000));
  CHECK_THAT(two.asks(), Catch::Matchers::ContainsSubstring("dial 1"));
}
