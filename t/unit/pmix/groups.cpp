// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "clients.hpp"
#include "groups.hpp"

using namespace nacre::pmix;  // NOLINT

namespace {

using Said = std::vector<std::string>;
using Kind = Groups::Kind;

const char* word_of(Groups::End end) {
  switch (end) {
    case Groups::End::whole: return "whole";
    case Groups::End::partial: return "partial";
    case Groups::End::lost: return "lost";
    default: return "timed out";
  }
}

// A job of six ranks on three nodes, and two that were spawned on the third and the fourth, which receive the same.
struct Members {
  Members() {
    processes.add("home", 0, {{0, {0, 1}}, {1, {2, 3}}, {2, {4, 5}}});
    processes.add("home-spawn-1", 6, {{2, {0}}, {3, {1}}});
    for (std::uint32_t node = 0; node < 4; ++node) nodes.push_back(std::make_unique<Groups>(processes, node));
  }

  void enter(std::uint32_t node, std::uint64_t number) {
    nodes[node]->enter(number, [this, node](const Groups::Outcome& outcome) {
      said.push_back(std::to_string(node) + ": " + word_of(outcome.end) +
                     (outcome.all.empty() ? "" : " " + outcome.all));
      last = outcome;
    });
  }
  void part(std::uint32_t node, const std::string& name, const Groups::Part& part) {
    for (auto& each : nodes) each->part(node, name, part);
  }
  void come(std::uint32_t node, const std::string& name, Groups::Part part) {
    enter(node, part.number);
    this->part(node, name, part);
  }
  void give_up(std::uint32_t node, const std::string& name, std::uint64_t number) {
    for (auto& each : nodes) each->give_up(node, name, number);
  }
  // One node reports what it knows to the others, and they report what follows.
  void report() {
    for (auto& each : nodes) {
      Groups::Notices notices = each->take_notices();
      for (Rank rank : notices.ended) reported.push_back("ended " + std::to_string(rank)), ended(rank);
      for (std::uint32_t lost : notices.lost) reported.push_back("lost " + std::to_string(lost)), over(lost);
    }
  }
  void ended(Rank rank) {
    for (auto& each : nodes) each->ended(rank);
  }
  void over(std::uint32_t node) {
    for (auto& each : nodes) each->over(node);
  }
  Said take() { return std::exchange(said, {}); }

  ProcessMap processes;
  std::vector<std::unique_ptr<Groups>> nodes;
  Said said, reported;
  Groups::Outcome last;
};

const std::string kAllOfHome = Groups::name_of(Kind::construct, {0, 1, 2, 3, 4, 5}, "all");

}  // namespace

TEST_CASE("a group is there once all nodes with members have given their parts; others are not concerned") {
  Members job;
  job.come(2, kAllOfHome, {.number = 1, .wants_id = true, .bytes = "c"});
  job.come(0, kAllOfHome, {.number = 7, .bytes = "a"});
  CHECK(job.take().empty());
  job.come(1, kAllOfHome, {.number = 1, .bytes = "b"});
  CHECK(job.take() == Said{"0: whole abc", "1: whole abc", "2: whole abc"});
  CHECK(job.last.id == context_id(7, 0));
  CHECK(job.last.members == std::vector<Rank>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("without a wish there is no id; spawned processes may be members") {
  Members job;
  const std::string name = Groups::name_of(Kind::construct, {0, 7}, "family");
  job.come(0, name, {.number = 1, .bytes = {}});
  job.come(3, name, {.number = 1, .bytes = {}});
  CHECK(job.take() == Said{"0: whole", "3: whole"});
  CHECK(job.last.id == 0);
}

TEST_CASE("ids are different for all parts of all nodes") {
  std::set<std::uint64_t> ids;
  for (std::uint64_t number = 1; number <= 100; ++number) {
    for (std::uint32_t node = 0; node < 100; ++node) ids.insert(context_id(number, node));
  }
  CHECK(ids.size() == 10000);
  CHECK(*ids.begin() > 0);
  CHECK(*ids.rbegin() <= 20000);
}

TEST_CASE("groups do not wait for each other, whatever the order") {
  Members job;
  const std::string other = Groups::name_of(Kind::construct, {0, 2}, "other");
  job.come(0, kAllOfHome, {.number = 1, .bytes = "a"});
  job.come(0, other, {.number = 2, .bytes = "x"});
  job.come(1, other, {.number = 1, .bytes = "y"});
  CHECK(job.take() == Said{"0: whole xy", "1: whole xy"});
  job.come(1, kAllOfHome, {.number = 2, .bytes = "b"});
  job.come(2, kAllOfHome, {.number = 1, .bytes = "c"});
  CHECK(job.take() == Said{"0: whole abc", "1: whole abc", "2: whole abc"});
}

TEST_CASE("one name may be of several groups, and of one again and again") {
  Members job;
  const std::string low = Groups::name_of(Kind::construct, {0, 2}, "all"),
                    high = Groups::name_of(Kind::construct, {1, 3}, "all");
  job.come(0, low, {.number = 1, .bytes = "a"});
  job.come(1, high, {.number = 1, .bytes = "d"});
  CHECK(job.take().empty());
  job.come(0, high, {.number = 2, .bytes = "c"});
  job.come(1, low, {.number = 2, .bytes = "b"});
  CHECK(job.take() == Said{"0: whole cd", "1: whole cd", "0: whole ab", "1: whole ab"});
  job.come(0, low, {.number = 3, .bytes = {}});
  job.come(1, low, {.number = 3, .bytes = {}});
  CHECK(job.take() == Said{"0: whole", "1: whole"});
}

TEST_CASE(
    "a member that has ended is reported once others wait for it, and ends it for all, also for who comes later") {
  Members job;
  job.nodes[2]->ended_here(4);
  job.report();
  CHECK(job.reported.empty());
  job.come(0, kAllOfHome, {.number = 1, .bytes = {}});
  job.report();
  CHECK(job.reported == Said{"ended 4"});
  CHECK(job.take() == Said{"0: lost"});
  job.come(1, kAllOfHome, {.number = 1, .bytes = {}});
  job.come(2, kAllOfHome, {.number = 1, .bytes = {}});
  CHECK(job.take() == Said{"1: lost", "2: lost"});
  job.come(1, kAllOfHome, {.number = 2, .bytes = {}});  // and again
  CHECK(job.take() == Said{"1: lost"});
}

TEST_CASE("a node's part counts, though a member of it has ended since; not where libpmix has missed one") {
  Members job;
  job.come(2, kAllOfHome, {.number = 1, .bytes = {}});
  job.ended(4);
  job.come(0, kAllOfHome, {.number = 1, .bytes = {}});
  job.come(1, kAllOfHome, {.number = 1, .bytes = {}});
  CHECK(job.take() == Said{"0: whole", "1: whole", "2: whole"});
  CHECK(job.last.members == std::vector<Rank>{0, 1, 2, 3, 5});
  Members other;
  other.come(2, kAllOfHome, {.number = 1, .bytes = {}});
  other.come(0, kAllOfHome, {.number = 1, .is_whole = false, .bytes = {}});
  CHECK(other.take() == Said{"0: lost", "2: lost"});
}

TEST_CASE("where that is no error, and when a group is destructed, those that have ended are left out") {
  Members job;
  job.come(0, kAllOfHome, {.number = 1, .wants_id = true, .is_optional = true, .bytes = "a"});
  job.come(1, kAllOfHome, {.number = 1, .is_optional = true, .bytes = "b"});
  job.ended(4);
  CHECK(job.take().empty());
  job.ended(5);
  CHECK(job.take() == Said{"0: partial ab", "1: partial ab"});
  CHECK(job.last.members == std::vector<Rank>{0, 1, 2, 3});
  CHECK(job.last.id == context_id(1, 0));
  const std::string name = Groups::name_of(Kind::destruct, {0, 2, 4}, "all");
  job.come(1, name, {.number = 2, .bytes = {}});
  job.come(0, name, {.number = 2, .bytes = {}});
  CHECK(job.take() == Said{"0: partial", "1: partial"});
}

TEST_CASE("a lost node is reported by the first that waits and is not lost itself, once; all end alike") {
  Members job;
  job.come(1, kAllOfHome, {.number = 1, .bytes = {}});
  job.come(0, kAllOfHome, {.number = 1, .bytes = {}});
  for (std::uint32_t node : {0U, 1U}) job.nodes[node]->lost(2);
  CHECK(job.nodes[1]->take_notices().lost.empty());
  job.report();
  CHECK(job.reported == Said{"lost 2"});
  CHECK(job.take() == Said{"0: lost", "1: lost"});
  Members other;
  other.come(0, kAllOfHome, {.number = 1, .bytes = {}});
  other.come(1, kAllOfHome, {.number = 1, .bytes = {}});
  for (std::uint32_t lost : {0U, 2U}) other.nodes[1]->lost(lost);
  other.report();
  CHECK(other.reported == Said{"lost 2"});
}

TEST_CASE("one that waits no longer ends it for all; who comes later is reported so, once") {
  Members job;
  job.come(0, kAllOfHome, {.number = 1, .bytes = {}});
  job.come(1, kAllOfHome, {.number = 1, .bytes = {}});
  job.give_up(1, kAllOfHome, 1);
  CHECK(job.take() == Said{"0: timed out", "1: timed out"});
  job.come(0, kAllOfHome, {.number = 2, .bytes = "a"});
  job.come(2, kAllOfHome, {.number = 1, .bytes = "c"});
  CHECK(job.take() == Said{"2: timed out"});
  job.come(1, kAllOfHome, {.number = 2, .bytes = "b"});
  job.come(2, kAllOfHome, {.number = 2, .bytes = "c"});
  CHECK(job.take() == Said{"0: whole abc", "1: whole abc", "2: whole abc"});
  job.give_up(1, kAllOfHome, 2);
  CHECK(job.take().empty());
}

TEST_CASE("who has been answered otherwise is not answered again, and one that came twice gives up the later") {
  Members job;
  job.come(0, kAllOfHome, {.number = 1, .bytes = {}});
  job.nodes[0]->leave(1);
  job.come(0, kAllOfHome, {.number = 2, .bytes = {}});
  job.give_up(0, kAllOfHome, 2);
  CHECK(job.take() == Said{"0: timed out"});
  job.come(1, kAllOfHome, {.number = 1, .bytes = {}});
  job.come(2, kAllOfHome, {.number = 1, .bytes = {}});
  CHECK(job.take() == Said{"1: whole", "2: whole"});
}

TEST_CASE("a part is the same after its way; names that are none are ignored") {
  for (const Groups::Part& part : {Groups::Part{.number = 3, .bytes = {}},
                                   Groups::Part{.number = 1, .is_whole = false, .wants_id = true, .bytes = "b"},
                                   Groups::Part{.number = 9, .is_optional = true, .bytes = std::string(2, '\0')}}) {
    PeerMessage message = Groups::message_of("c0:x", part);
    CHECK(message.kind == PeerMessage::Kind::group);
    CHECK(message.texts[0] == "c0:x");
    CHECK(Groups::part_of(*decode(encode(message))) == part);
  }
  Members job;
  for (const char* name : {"", "c", "c:", "c9:x", "c1-0:x", "0"}) job.come(0, name, {.number = 1, .bytes = {}});
  CHECK(job.take().empty());
}

TEST_CASE("pieces of a group's data, one after the other, and back; the first that is invalid ends them") {
  using Kind = GroupPiece::Kind;
  const std::vector<GroupPiece> pieces = {
      {Kind::bytes, std::string("a\0:b3:", 6)}, {Kind::infos, ""}, {Kind::infos, "i1:x"}, {Kind::bytes, "c"}};
  std::string text;
  for (const GroupPiece& each : pieces) text += text_of(each);
  CHECK(pieces_in(text) == pieces);
  CHECK(pieces_in("").empty());
  for (const char* invalid :
       {"x1:a", "b", "b:", "b1", "b1:", "b-1:a", "b 1:a", "b99999999999999999999:a", "bx:a"}) {
    INFO(invalid);
    CHECK(pieces_in(text + invalid) == pieces);
  }
}

TEST_CASE("a failure never becomes 0, and keeps its code where a process may have it") {
  CHECK(failure_code(0) == 1);
  CHECK(failure_code(1) == 1);
  CHECK(failure_code(255) == 255);
  CHECK(failure_code(256) == 255);
  CHECK(failure_code(300) == 44);
  CHECK(failure_code(-1) == 255);
  CHECK(failure_code(-2) == 254);
  CHECK(failure_code(-256) == 255);
  CHECK(failure_code(INT_MIN) == 255);
  CHECK(failure_code(INT_MAX) == 255);
}
