// SPDX-License-Identifier: Apache-2.0
//
// The rules of doc/protocol.md, one node at a time; t/sim has them all at once. The tree is binary, of seven
// members: 1 has the parent 0 and the children 3 and 4.
#include "catch.hpp"

#include "bench.hpp"
#include "overlay/node.hpp"
#include "overlay/wire.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

TEST_CASE("rule 1: an entry is forwarded, then delivered, and only the next one is taken") {
  Middle bench;
  bench.entry(0, 1, Event{"e", ""});
  CHECK(bench.asks() == "v3 entry 1; v4 entry 1; deliver 1");
  bench.entry(0, 1, Event{"e", ""});
  CHECK(bench.asks().empty());
  bench.entry(0, 3, Event{"e", ""});
  CHECK(bench.asks() == "note; hang up ^0; dial 0");
  CHECK(bench.node.applied() == 1);
}

TEST_CASE("rules 3 and 4: what a child has acknowledged counts if it names my view, and the least is told") {
  Middle bench;
  bench.entry(0, 1, Signal{10, std::nullopt});
  bench.asks();
  bench.say({3, Side::down}, Up{0, 1, {}, {}, {}, {}, {}});
  CHECK(bench.asks().empty());
  bench.say({4, Side::down}, Up{7, 1, {}, {}, {}, {}, {}});  // of another view
  CHECK(bench.asks().empty());
  bench.below(5);
  bench.asks();
  bench.say({5, Side::down}, Up{0, 1, {}, {}, {}, {}, {}});  // no child
  CHECK(bench.asks().empty());
  bench.say({4, Side::down}, Up{0, 1, {}, {}, {}, {}, {}});
  CHECK(bench.asks() == "^0 UP 0:1");
}

TEST_CASE("that an event has come is told with what is said next, unless it is large or there are many") {
  Bench bench(5);  // a leaf
  bench.above(2);
  bench.asks();
  bench.entry(2, 1, Event{"e", std::string(4096, 'x')});
  CHECK(bench.asks() == "deliver 1");
  bench.entry(2, 2, Event{"e", std::string(4097, 'x')});
  CHECK(bench.asks() == "deliver 2; ^2 UP 0:2");
  for (Seq seq = 3; seq <= 66; ++seq) {
    bench.entry(2, seq, Event{"e", ""});
    CHECK(bench.asks() == fmt::format("deliver {}", seq));
  }
  bench.entry(2, 67, Event{"e", ""});
  CHECK(bench.asks() == "deliver 67; ^2 UP 0:67");
}

TEST_CASE("rule 3: who comes gets what it lacks, and no more") {
  Middle bench;
  for (Seq seq = 1; seq <= 3; ++seq) bench.entry(0, seq, Event{"e", ""});
  bench.asks();
  bench.below(6, 1);
  CHECK(bench.asks() == "v6 WELCOME; v6 entry 2; v6 entry 3");
  bench.below(5, 9);
  CHECK(bench.asks() == "v5 WELCOME");
}

TEST_CASE("rule 4: an entry is dropped when the leader says that all have it") {
  Middle bench;
  for (Seq seq = 1; seq <= 3; ++seq) bench.entry(0, seq, Event{"e", ""});
  bench.say({0, Side::up}, Beat{1, 2, {}});
  CHECK(bench.node.entry(2) == nullptr);
  CHECK(bench.node.entry(3) != nullptr);
  bench.asks();
  bench.below(6, 1);  // no member can say that: it would need entry 2
  CHECK(bench.asks() == "note; v6 BYE 1; hang up v6");
}

TEST_CASE("rule 5: the new parent is dialled, and the old one left when it has answered") {
  Bench bench(5);
  bench.above(2);
  bench.asks();
  bench.entry(2, 1, died("1"));  // 6 moves to the slot of 1; 5 stays
  bench.entry(2, 2, left("2"));  // 5 moves to the slot of 2: its parent is 0
  CHECK(bench.asks() == "deliver 1; ^2 UP 1:1; deliver 2; dial 0");
  bench.node.linked({0, Side::up});
  CHECK(bench.asks() == "^0 HELLO");
  bench.say({0, Side::up}, Welcome{2, 2, {}, 3});
  CHECK(bench.asks() == "^2 BYE 0; hang up ^2; ^0 UP 2:2");
}

TEST_CASE("rule 6: a lost parent is dialled again, then those above it, told whom it is about") {
  Bench bench(3);
  bench.above(1);
  bench.asks();
  bench.node.unlinked({1, Side::up});
  CHECK(bench.asks() == "dial 1");
  bench.node.unlinked({1, Side::up});
  CHECK(bench.asks() == "dial 0");
  bench.node.linked({0, Side::up});
  CHECK(bench.asks() == "^0 HELLO suspects 1");
  bench.say({0, Side::up}, Welcome{0, 0, {}, 3});
  CHECK(bench.node.feeder() == 0U);
  CHECK_FALSE(bench.node.settled());
  bench.asks();
  bench.wait(milliseconds(500));
  CHECK(bench.asks() == "dial 1");
  bench.above(1);
  CHECK(bench.asks() == "^1 HELLO suspects 1; ^0 BYE 0; hang up ^0; ^1 UP 0:0");
  CHECK(bench.node.settled());
}

TEST_CASE("rule 6: a child whose link broke is suspected at once if another has lost it too") {
  Middle bench;
  bench.node.unlinked({3, Side::down});
  CHECK(bench.asks().empty());
  bench.node.linked({6, Side::down});
  bench.say({6, Side::down}, Hello{6, Standing::member, 0, 0, "", *Idset::parse("3-4"), 3});
  CHECK(bench.asks() == "v6 WELCOME; ^0 UP 0:0 suspects 3");
  bench.below(3);
  CHECK(bench.asks() == "v3 WELCOME; ^0 UP 0:0");
}

TEST_CASE("rule 7: after the entry that removes it a child is sent nothing more") {
  Middle bench;
  bench.entry(0, 1, left("3"));
  CHECK(bench.asks() == "v3 entry 1; close v3; v4 entry 1; deliver 1; ^0 UP 1:0");
  bench.entry(0, 2, Event{"e", ""});
  CHECK(bench.asks() == "v4 entry 2; deliver 2");
}

TEST_CASE("rule 8: who leaves forwards, ends its tasks, waits for its children that leave, reports and goes") {
  Middle bench;
  bench.entry(0, 1, left("1,3"));
  CHECK(bench.asks() == "v3 entry 1; close v3; v4 entry 1; deliver 1; leave");
  bench.node.tasks_ended();
  CHECK(bench.asks().empty());
  Up gone;
  gone.gone = *Idset::parse("3");
  bench.say({3, Side::down}, gone);
  CHECK(bench.asks().empty());
  bench.node.unlinked({3, Side::down});
  CHECK(bench.asks() == "^0 UP 0:0 gone 3; ^0 UP 0:0 gone 1; finished");
  bench.node.stays();
  CHECK(bench.asks() == "^0 BYE 2; hang up ^0");
}

TEST_CASE("rule 8: who has reported itself gone is so when its link ends, or when it says that its process stays") {
  Middle bench;
  Up gone;
  gone.gone = *Idset::parse("3,7");
  bool stays = GENERATE(false, true);
  bench.entry(0, 1, left("3,7"));
  bench.asks();
  bench.say({3, Side::down}, gone);
  CHECK(bench.asks() == "^0 UP 1:0 gone 7");  // from below member 3, which has seen 7 go
  CHECK(bench.node.has_left(3));
  if (stays)
    bench.say({3, Side::down}, Bye{Farewell::gone, ""});
  else
    bench.node.unlinked({3, Side::down});
  CHECK(bench.asks() == "^0 UP 1:0 gone 3");
  CHECK_FALSE(bench.node.has_left(3));
  bench.node.unlinked({3, Side::down});
  CHECK(bench.asks().empty());
}

TEST_CASE("rule 8: who leaves waits for those that have left before it, and whose links have not ended") {
  Middle bench;
  Up gone;
  gone.gone = *Idset::parse("3");
  bench.entry(0, 1, left("3"));
  bench.say({3, Side::down}, gone);
  bench.entry(0, 2, left("1"));
  bench.asks();
  bench.node.tasks_ended();
  CHECK(bench.asks().empty());
  bench.node.unlinked({3, Side::down});
  CHECK(bench.asks() == "^0 UP 0:0 gone 3; ^0 UP 0:0 gone 1; finished");
}

TEST_CASE("rule 8: all within a bound") {
  Middle bench;
  bench.entry(0, 1, left("1,3"));
  bench.node.tasks_ended();
  bench.asks();
  bench.wait(bench.node.options().leave_bound);
  CHECK(bench.asks().ends_with("finished"));
  Middle stuck;
  stuck.entry(0, 1, left("1"));
  stuck.wait(stuck.node.options().leave_bound);
  CHECK(stuck.asks().ends_with("die"));
}

TEST_CASE("rule 8: one whose process has ended without having reported itself gone is gone with its link") {
  Bench leader(0, 3);
  leader.below(1);
  leader.below(2);
  leader.node.request(Shrink{members("1-2")}).value();
  leader.node.suspect(1);  // a link of member 1 is left
  leader.node.suspect(2);
  leader.node.unlinked({2, Side::down});
  CHECK(leader.node.applied() == 1);
  leader.node.unlinked({1, Side::down});
  CHECK(std::get<Campaign>(leader.node.entry(2)->body) == Campaign{false, 1, members("1-2"), {}});
}

TEST_CASE("rule 8: one whose link has broken before, to another parent than it has now, is gone") {
  Bench leader(0, 5);  // 1, above 3 and 4, and 2
  leader.below(1);
  leader.below(2);
  Up up;
  up.ended = members("4");
  leader.say({1, Side::down}, up);
  leader.node.request(Shrink{members("4")}).value();
  for (Id id : {1U, 2U}) {
    up.view = up.acked = 1;
    leader.say({id, Side::down}, up);
  }
  CHECK(std::get<Campaign>(leader.node.entry(2)->body) == Campaign{false, 1, members("4"), {}});
}

TEST_CASE("rule 9: of those that are removed the leader knows which have ended, and which were silent") {
  auto loses = [](const std::function<void(Bench&)>& how) {
    Bench leader(0, 4);  // 1, above 3, and 2
    leader.below(1);
    leader.below(2);
    how(leader);
    Idset out;
    for (Id id = 1; id < 4; ++id) {
      if (!leader.node.tree().has(id) && leader.node.has_ended(id)) out.insert(id);
    }
    return out;
  };
  auto one_speaks = [](Bench& leader, milliseconds time) {
    for (milliseconds each{0}; each < time; each += milliseconds(500)) {
      leader.wait(milliseconds(500));
      leader.say({1, Side::down}, Beat{});
    }
  };
  const Idset told = loses([](Bench& leader) { leader.node.suspect(2); });
  CHECK(told == members("2"));
  const Idset cut = loses([&](Bench& leader) {
    leader.node.unlinked({2, Side::down});
    one_speaks(leader, leader.node.options().relink_bound);
  });
  CHECK(cut == members("2"));
  const Idset silent = loses([&](Bench& leader) {
    one_speaks(leader, leader.node.options().silent_bound);
    CHECK_FALSE(leader.node.tree().has(2));
  });
  CHECK(silent.empty());
  Up up;
  up.suspects = members("3");
  const Idset suspected = loses([&](Bench& leader) { leader.say({1, Side::down}, up); });
  CHECK(suspected.empty());
  up.ended = members("3");
  const Idset ended = loses([&](Bench& leader) { leader.say({1, Side::down}, up); });
  CHECK(ended == members("3"));
}

namespace {

// The tasks that the node has reported as ended since the last call.
Idset take_ended(Bench& bench) {
  Idset out;
  for (const Effect& each : bench.node.take_effects()) {
    const auto* send = std::get_if<Send>(&each);
    const auto* up = send != nullptr ? std::get_if<Up>(&send->message.body) : nullptr;
    if (up != nullptr) out.insert(up->ended);
  }
  return out;
}

}  // namespace

TEST_CASE("rule 9: a child whose link has ended is reported as such, and one that is silent is not") {
  Middle bench;
  bench.node.unlinked({3, Side::down});
  CHECK(take_ended(bench).empty());
  Idset said;
  for (milliseconds each{0}; each < bench.node.options().silent_bound; each += milliseconds(500)) {
    bench.wait(milliseconds(500));
    bench.say({0, Side::up}, Beat{});
    said.insert(take_ended(bench));
  }
  CHECK(said == members("3"));
}

TEST_CASE("rule 9: a child that moves, as others are lost, once its link has broken, is still reported as ended") {
  Middle bench;
  const bool breaks = GENERATE(true, false);
  if (breaks) bench.node.unlinked({4, Side::down});
  bench.entry(0, 1, died("2,5-6"));
  REQUIRE(bench.node.tree().parent(4) == 0U);
  CHECK(take_ended(bench) == (breaks ? members("4") : Idset()));
}

TEST_CASE("rule 11: parts go up when a subtree is whole, and again on each view") {
  Middle bench;
  REQUIRE(bench.node.enter("b", Merge::sum, std::int64_t{1}));
  bench.say({3, Side::down}, Up{0, 0, {}, {}, {}, {}, {{"b", {}, Merge::sum, 0, 1, "\x01"}}});
  CHECK(bench.asks().empty());
  bench.say({4, Side::down}, Up{0, 0, {}, {}, {}, {}, {{"b", {}, Merge::sum, 0, 1, "\x01"}}});
  CHECK(bench.asks() == "^0 UP 0:0 part b");
  bench.entry(0, 1, died("6"));
  CHECK(bench.asks() == "v3 entry 1; v4 entry 1; deliver 1; ^0 UP 1:0");
  for (Id id : {3U, 4U}) {
    bench.say({id, Side::down}, Up{1, 1, {}, {}, {}, {}, {{"b", {}, Merge::sum, 0, 1, "\x01"}}});
  }
  CHECK(bench.asks() == "^0 UP 1:1 part b");
  bench.entry(0, 2, Release{"b", {}, Merge::sum, 0, 1, "\x03"});
  CHECK(bench.asks() == "v3 entry 2; v4 entry 2; deliver 2; released b");
  CHECK_FALSE(bench.node.enter("b", Merge::sum, std::int64_t{1}));
}

TEST_CASE("a collective whose value is above the limit is not sent on, and its owner is told") {
  auto options = Bench::options(1, 7, false);
  options.max_value = 8;
  Node node(options);
  node.tick(seconds(1000));
  node.linked({0, Side::up});
  node.step({0, Side::up}, {77, 3, Welcome{0, 0, {}, 3}});
  for (Id id : {3U, 4U}) {
    node.linked({id, Side::down});
    node.step({id, Side::down}, {77, 3, Hello{id, Standing::member, 0, 0, "", {}, 3}});
    Bytes part = encode_value(Unique{Bytes(4, static_cast<char>('a' + id))});
    node.step({id, Side::down}, {77, 3, Up{0, 0, {}, {}, {}, {}, {{"s", {}, Merge::set, 0, part.size(), part}}}});
  }
  static_cast<void>(node.take_effects());
  REQUIRE(node.enter("s", Merge::set, Bytes("mine")));
  auto effects = node.take_effects();
  REQUIRE(effects.size() == 1);
  const auto* overflow = std::get_if<TooLarge>(effects.data());
  REQUIRE(overflow != nullptr);
  CHECK(overflow->name == "s");
  CHECK(overflow->size == 16);  // three parts of 5 bytes, and their number

  options.self = 0;
  options.members = 1;
  Node leader(options);
  leader.tick(seconds(1000));
  REQUIRE(leader.enter("s", Merge::set, Bytes(9, 'x')));
  effects = leader.take_effects();
  CHECK(std::any_of(effects.begin(), effects.end(),
                    [](const Effect& each) { return std::holds_alternative<TooLarge>(each); }));
  CHECK(leader.applied() == 0);
}

TEST_CASE("a collective is over when nobody of its scope is left, and not before") {
  Bench leader(0, 2);
  leader.below(1);
  for (Id id : {5U, 6U}) {
    leader.node.linked({id, Side::down});
    leader.say({id, Side::down}, Hello{id, Standing::joining, 0, 0, "h", {}});
  }
  leader.node.request(Grow{*Idset::parse("5-6"), 1000}).value();
  REQUIRE(leader.node.view() == 1);
  leader.say({5, Side::down}, Up{1, 1, {}, {}, {}, {}, {{"n", {1, 1}, Merge::sum, 0, 1, "\x01"}}});
  leader.node.suspect(5);
  CHECK(leader.node.collectives().size() == 1);
  leader.node.suspect(6);
  CHECK(leader.node.collectives().empty());
}

TEST_CASE("rule 11: a new way up gets to know how tasks ended before the part that says that they have") {
  Middle bench;
  bench.node.unlinked({0, Side::up});
  bench.node.exited(Idset::range(7, 7), "x3");
  REQUIRE(bench.node.enter("b", Merge::sum, std::int64_t{1}));
  Part part{"b", {}, Merge::sum, 0, 1, "\x01"};
  bench.say({3, Side::down}, Up{0, 0, {}, {}, {}, {{Idset::range(8, 8), "x0"}}, {part}});
  bench.say({4, Side::down}, Up{0, 0, {}, {}, {}, {}, {part}});
  bench.asks();
  bench.above(0);
  CHECK(bench.asks() == "^0 HELLO suspects 0; ^0 UP 0:0 exited 8 x0 exited 7 x3; ^0 UP 0:0 part b");
}

TEST_CASE("rule 12: EXEC is mapped to members") {
  Bench bench(0, 4);
  bench.node.request(Shrink{*Idset::parse("2-3")}).value();
  bench.node.request(Exec{0, {{1, *Idset::parse("0")}, {2, *Idset::parse("1-2")}}, "c"}).value();
  const auto& exec = std::get<Exec>(bench.node.entry(2)->body);
  CHECK(exec.view == 1);
  REQUIRE(exec.map.size() == 1);
  CHECK(exec.map[0] == RankShare{1, *Idset::parse("0-2")});
  bench.node.request(Exec{0, {{3, *Idset::parse("0")}}, "c"}).value();
  CHECK(std::get<Exec>(bench.node.entry(3)->body).map == std::vector<RankShare>{{0, *Idset::parse("0")}});
}

TEST_CASE("rule 12: a strict EXEC goes to those that it names, or to none") {
  Bench bench(0, 4);
  bench.node.request(Shrink{*Idset::parse("2-3")}).value();
  bench.node.request(Exec{0, {{1, {}}, {2, {}}, {3, {}}}, "c", true, ExecKind::tool}).value();
  CHECK(std::get<Refused>(bench.node.entry(2)->body).members.str() == "2-3");
  bench.node.request(Exec{0, {{0, {}}, {1, *Idset::parse("4")}}, "c", true, ExecKind::tool}).value();
  const auto& exec = std::get<Exec>(bench.node.entry(3)->body);
  CHECK(exec == Exec{1, {{0, {}}, {1, *Idset::parse("4")}}, "c", true, ExecKind::tool});
  bench.node.request(Exec{0, {{1, {}}, {2, {}}}, "c", false, ExecKind::tool}).value();
  CHECK(std::get<Exec>(bench.node.entry(4)->body).map == std::vector<RankShare>{{1, {}}});
}

TEST_CASE("rule 12: an EXEC whose ranks go to others is refused if it becomes too long") {
  Bench bench(0, 4);
  bench.node.request(Shrink{*Idset::parse("3")}).value();
  bench.node.request(Exec{0, {{0, {}}, {1, {}}, {3, Idset::range(0, 400'000)}}, "c"}).value();
  CHECK(std::get<Refused>(bench.node.entry(2)->body).why.find("at most") != std::string::npos);
}

TEST_CASE("rule 9: very many members that are lost at once are removed by several views", "[long]") {
  Idset lost;
  for (Id id = 4'000'000'001; id < 4'000'025'000; id += 2) lost.insert(id);
  REQUIRE(lost.str().size() > kSplitIds);
  Bench bench(0, 4'200'000'000);
  bench.below(1);
  for (int views = 0; views < 2; ++views) {  // a member with a new view reports once more
    Seq view = bench.node.view();
    Idset left;
    for (Id id : bench.node.tree().members_of(lost)) left.insert(id);
    bench.say({1, Side::down}, Up{view, view, left, {}, {}, {}, {}});
  }
  CHECK(bench.node.tree().size() == 4'200'000'000 - lost.size());
  REQUIRE(bench.node.applied() == 2);
  Idset removed;
  for (Seq seq = 1; seq <= bench.node.applied(); ++seq) {
    const Idset& dead = std::get<View>(bench.node.entry(seq)->body).dead;
    CHECK(dead.str().size() <= kSplitIds);
    removed = removed | dead;
  }
  CHECK(removed == lost);
}

TEST_CASE("rule 14: another term or job is refused before anything else") {
  Middle bench;
  bench.node.step({0, Side::up}, {77, 2, Entry{1, {}, Event{"e", ""}}});
  CHECK(bench.asks() == "note; ^0 BYE 4; hang up ^0; dial 0");
  bench.node.step({3, Side::down}, {78, 3, Up{}});
  CHECK(bench.asks() == "note; v3 BYE 4; hang up v3");
  CHECK(bench.node.applied() == 0);
}

TEST_CASE("a request acts once, and one that cannot be granted is refused by an entry") {
  Bench bench(0, 3);
  bench.below(1);
  Request request{{1, 1}, Event{"e", ""}};
  bench.say({1, Side::down}, request);
  bench.say({1, Side::down}, request);
  CHECK(bench.node.applied() == 1);
  bench.node.request(Shrink{*Idset::parse("0-1")}).value();
  CHECK(std::holds_alternative<Refused>(bench.node.entry(2)->body));
  bench.node.request(Grow{*Idset::parse("2"), 10}).value();
  CHECK(std::holds_alternative<Refused>(bench.node.entry(3)->body));
}

TEST_CASE("a newcomer waits at the leader, and is a member with its snapshot") {
  Bench leader(0, 2);
  leader.below(1);
  leader.node.linked({5, Side::down});
  leader.say({5, Side::down}, Hello{5, Standing::joining, 0, 0, "h:5", {}});
  CHECK(leader.node.applied() == 0);
  leader.asks();
  leader.node.request(Grow{*Idset::parse("5"), 1000}).value();
  CHECK(leader.asks() == "v1 entry 1; deliver 1; v5 WELCOME");
  CHECK(leader.node.tree().address(5) == "h:5");

  Bench bench(5, 2, true);
  bench.node.linked({0, Side::up});
  CHECK(bench.asks() == "dial 0; ^0 HELLO");
  Snapshot snapshot;
  leader.node.tree().write(snapshot);
  bench.say({0, Side::up}, Welcome{1, 1, snapshot, 3});
  CHECK(bench.asks() == "joined 1; ^0 UP 1:1");
  CHECK(bench.node.tree().slot_of(5) == 2U);
}

TEST_CASE("a grow does not wait for a newcomer that will not come") {
  Bench leader(0, 2);
  leader.below(1);
  leader.node.request(Grow{*Idset::parse("5-6"), 1000}).value();
  leader.node.linked({5, Side::down});
  leader.say({5, Side::down}, Hello{5, Standing::joining, 0, 0, "h:5", {}});
  CHECK(leader.node.applied() == 0);
  leader.node.suspect(6);
  CHECK(leader.node.applied() == 1);
  CHECK(leader.node.tree().has(5));
  leader.node.request(Grow{*Idset::parse("7"), 1000}).value();
  leader.node.suspect(7);
  CHECK(std::get<Campaign>(leader.node.entry(2)->body) == Campaign{true, 0, {}, *Idset::parse("7")});
}

TEST_CASE("the end: who has it and all below have it says so and finishes") {
  Middle bench;
  bench.entry(0, 1, End{3});
  CHECK(bench.asks() == "v3 entry 1; v4 entry 1; deliver 1");
  for (Id id : {3U, 4U}) {
    bench.say({id, Side::down}, Up{0, 1, {}, {}, {}, {}, {}});
    bench.say({id, Side::down}, Bye{Farewell::finished, ""});
  }
  CHECK(bench.asks() == "^0 UP 0:1; ^0 BYE 3; finished");
  CHECK(bench.node.request(End{1}).error().code == EPIPE);
}

// Values that are too large for the log.

namespace {

constexpr std::size_t kLogged = 8;

Result<Bytes> first_bytes(std::string_view bytes) {
  Bytes out(bytes.substr(0, kDigest));
  out.resize(kDigest);
  return out;
}

OverlayOptions options(Id self, std::uint32_t members) {
  OverlayOptions out = Bench::options(self, members, false);
  out.max_logged = kLogged;
  out.digest = first_bytes;
  return out;
}

// A member that is fed by its leader.
struct Fed {
  Fed() {
    node.tick(seconds(1000));
    node.linked({0, Side::up});
    say(Welcome{0, 0, {}, 3});
    static_cast<void>(node.take_effects());
  }
  void say(Body body) { node.step({0, Side::up}, {77, 3, std::move(body)}); }
  void promise(Seq seq, const char* name, Scope scope = {}) {
    say(Entry{seq, {}, Promise{name, scope, Merge::set, value.size(), first_bytes(value).value()}});
  }
  // The effects that are about values.
  std::string told() {
    std::string out;
    for (const Effect& each : node.take_effects()) {
      if (const auto* released = std::get_if<Released>(&each)) {
        bool fits = released->value == Value(Unique{Bytes(20, 'x')});
        out += released->name + (fits ? " " : " with another value ");
      }
      if (const auto* unfit = std::get_if<Unfit>(&each)) out += unfit->name + ": " + unfit->why + " ";
    }
    return out;
  }

  Bytes value = encode_value(Unique{Bytes(20, 'x')});
  Node node{options(1, 2)};
};

// A leader and the members below it, until all have entered; returns what it has asked for.
std::string asked(Id newcomer, Merge merge, const Own& part) {
  Node node(options(0, 1));
  node.tick(seconds(1000));
  if (newcomer != 0) {
    node.linked({newcomer, Side::down});
    node.step({newcomer, Side::down}, {77, 3, Hello{newcomer, Standing::joining, 0, 0, "h", {}}});
    node.request(Grow{Idset::range(newcomer, newcomer), 1000}).value();
    Bytes bytes = encode_value(value_of(merge, newcomer, part).value());
    node.step({newcomer, Side::down},
              {77, 3, Up{1, 1, {}, {}, {}, {}, {{"c", {}, merge, 0, bytes.size(), bytes}}}});
  }
  REQUIRE(node.enter("c", merge, part));
  std::string out;
  for (const Effect& each : node.take_effects()) {
    if (const auto* deliver = std::get_if<Deliver>(&each)) {
      const EntryBody& body = node.entry(deliver->seq)->body;
      if (std::holds_alternative<Promise>(body)) out += "promise ";
      if (std::holds_alternative<Release>(body)) out += "release ";
    }
    if (const auto* publish = std::get_if<Publish>(&each)) {
      out += fmt::format("publish {} of {} ", publish->value.size(), publish->entry);
    }
    if (std::holds_alternative<Released>(each)) out += "released ";
  }
  return out;
}

}  // namespace

TEST_CASE("a large value is promised by the log and published beside it, a small one is of the log") {
  CHECK(asked(0, Merge::set, Bytes(20, 'x')) == "promise publish 22 of 1 released ");
  CHECK(asked(0, Merge::set, Bytes(2, 'x')) == "release released ");
}

TEST_CASE("what a newcomer takes part in is of the log, however large") {
  CHECK(asked(5, Merge::set, Bytes(20, 'x')).find("promise") == std::string::npos);
  CHECK(asked(5, Merge::set, Bytes(20, 'x')).find("release ") != std::string::npos);
}

TEST_CASE("a member has a value once it is promised and has arrived, whichever comes first") {
  Fed fed;
  REQUIRE(fed.node.enter("a", Merge::set, Bytes(20, 'x')));
  fed.promise(1, "a");
  CHECK(fed.node.collectives().empty());
  CHECK(fed.told().empty());
  fed.node.arrived(1, fed.value);
  CHECK(fed.told() == "a ");
  fed.node.arrived(2, fed.value);
  fed.node.arrived(3, fed.value);
  CHECK(fed.told().empty());
  fed.promise(2, "b");
  CHECK(fed.told() == "b ");
  fed.promise(3, "c");
  CHECK(fed.told() == "c ");
  fed.node.arrived(3, fed.value);  // once
  CHECK(fed.told().empty());
}

TEST_CASE("values may arrive in another order than they were promised") {
  Fed fed;
  fed.promise(1, "a");
  fed.promise(2, "b");
  fed.node.arrived(2, fed.value);
  CHECK(fed.told() == "b ");
  fed.node.arrived(1, fed.value);
  CHECK(fed.told() == "a ");
}

TEST_CASE("a value that is not for this member is let go") {
  Fed fed;
  fed.promise(1, "a", {1, 1});
  fed.node.arrived(1, fed.value);
  fed.node.arrived(2, fed.value);
  fed.promise(2, "b", {1, 1});
  CHECK(fed.told().empty());
}

TEST_CASE("a value that is not what was promised is an error that names the collective") {
  Fed fed;
  fed.promise(1, "a");
  Bytes other = fed.value;
  other[3] = 'y';
  fed.node.arrived(1, other);
  CHECK(fed.told() == "a: it has another digest than was announced ");
  fed.promise(2, "b");
  fed.node.arrived(2, fed.value + "z");
  CHECK(fed.told() == "b: 23 bytes have come; 22 were announced ");
}

TEST_CASE("a leader that can make no digest sends the value in the log") {
  OverlayOptions mine = options(0, 1);
  mine.digest = [](std::string_view) -> Result<Bytes> { return invalid("no libcrypto"); };
  Node node(mine);
  node.tick(seconds(1000));
  REQUIRE(node.enter("c", Merge::set, Bytes(20, 'x')));
  REQUIRE(node.applied() == 1);
  CHECK(std::holds_alternative<Release>(node.entry(1)->body));
}
