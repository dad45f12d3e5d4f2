// SPDX-License-Identifier: Apache-2.0
#include "overlay/tree.hpp"

#include <random>

#include "catch.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

namespace {

std::vector<Id> slots(const Tree& tree) {
  std::vector<Id> out;
  for (Slot slot = 0; slot < tree.size(); ++slot) out.push_back(tree.at(slot));
  return out;
}

View leave(const char* ids) { return {{}, *Idset::parse(ids), {}}; }

}  // namespace

TEST_CASE("the first members sit in the slot of their number") {
  Tree tree(7, 2);
  CHECK(slots(tree) == std::vector<Id>{0, 1, 2, 3, 4, 5, 6});
  CHECK(tree.children(0) == std::vector<Id>{1, 2});
  CHECK(tree.children(2) == std::vector<Id>{5, 6});
  CHECK(tree.children(3).empty());
  CHECK_FALSE(tree.parent(0));
  CHECK(tree.ancestors(6) == std::vector<Id>{2, 0});
  CHECK(tree.depth(6) == 2);
  CHECK_FALSE(tree.has(7));
}

TEST_CASE("a departure is filled from the tail, in the order of the ids") {
  Tree tree(7, 2);
  tree.apply(5, leave("1"));
  CHECK(slots(tree) == std::vector<Id>{0, 6, 2, 3, 4, 5});
  CHECK(tree.parent(6) == 0U);
  tree.apply(6, leave("3,5"));  // 5 replaces 3, but leaves next, and 4 replaces it
  CHECK(slots(tree) == std::vector<Id>{0, 6, 2, 4});
  CHECK_FALSE(tree.has(5));
  tree.apply(7, leave("0-99"));
  CHECK(slots(tree) == std::vector<Id>{0});
}

TEST_CASE("newcomers sit at the end, once") {
  Tree tree(3, 2);
  tree.apply(4, {{{9, "h"}, {7, "g"}, {2, ""}}, {}, *Idset::parse("1")});
  CHECK(slots(tree) == std::vector<Id>{0, 2, 9, 7});
  CHECK(tree.joined(9) == 4);
  CHECK(tree.joined(2) == 0);
  CHECK(tree.address(7) == "g");
  CHECK(tree.last_joined(4) == 9);
  tree.apply(5, {{{9, "x"}, {1, ""}}, {}, {}});  // an id is not used twice
  CHECK(tree.size() == 4);
  tree.apply(6, {{{12, ""}}, *Idset::parse("9"), {}});  // members that have gone also count
  CHECK(tree.last_joined(4) == 9);
  CHECK(tree.last_joined(6) == 12);
  CHECK(tree.first_unused() == 13);
  tree.apply(7, {{}, *Idset::parse("12"), {}});
  CHECK(tree.first_unused() == 13);
  CHECK(Tree(3, 2).first_unused() == 3);
}

TEST_CASE("who is in a scope is found below a slot") {
  Tree tree(3, 2);
  tree.apply(4, {{{9, "h"}, {7, "g"}}, {}, {}});  // both below 1
  CHECK(tree.any_in(0, {4, 4}));
  CHECK(tree.any_in(1, {4, 4}));
  CHECK_FALSE(tree.any_in(2, {4, 4}));
  CHECK(tree.any_in(2, {}));
  CHECK_FALSE(tree.any_in(0, {5, kNoEnd}));
}

TEST_CASE("a tree is as a plain list would have it, and comes back from a snapshot") {
  std::mt19937 engine(1);
  auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  for (int round = 0; round < 200; ++round) {
    std::uint32_t first = 1 + random() % 40;
    Tree tree(first, 2 + random() % 4);
    std::vector<Id> list;
    for (Id id = 0; id < first; ++id) list.push_back(id);
    Id next = first;
    for (Seq seq = 1; seq < 12; ++seq) {
      View change;
      for (Id id : list) {
        if (id != 0 && random() % 5 == 0) change.leave.insert(id);
      }
      for (unsigned more = random() % 4; more > 0; --more) change.add.push_back({next++, "a"});
      for (Id id : change.leave.ids()) {
        auto at = std::find(list.begin(), list.end(), id);
        *at = list.back();
        list.pop_back();
      }
      for (const Newcomer& each : change.add) list.push_back(each.id);
      tree.apply(seq, change);
      REQUIRE(slots(tree) == list);
      Snapshot snapshot;
      tree.write(snapshot);
      Tree copy(snapshot);
      REQUIRE(slots(copy) == list);
      for (Slot slot = 0; slot < list.size(); ++slot) {
        REQUIRE(copy.slot_of(list[slot]) == slot);
        REQUIRE(copy.joined(list[slot]) == tree.joined(list[slot]));
      }
    }
  }
}

TEST_CASE("a new leader changes places with the one before, whose slot the last member fills") {
  Tree tree(7, 2);
  const View change{{}, {}, *Idset::parse("0"), 2};
  tree.apply(1, change);
  CHECK(tree.leader() == 2);
  CHECK_FALSE(tree.has(0));
  CHECK(tree.slot_of(6) == 2);
  CHECK(tree.members() == *Idset::parse("1-6"));
  CHECK(tree.children(2) == std::vector<Id>{1, 6});
}
