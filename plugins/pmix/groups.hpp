// SPDX-License-Identifier: Apache-2.0
//
// Process groups whose members are on several nodes: they are constructed, and destructed, by all members together.
// A node gives its part when all its members have come. If the missing members of a node have ended, nobody waits
// for it: then no group is constructed, unless all wanted that to be no error; a group that is destructed is gone
// in any case. An operation ends for all nodes together: a node that has not given its part by then gets the same
// result when it does. Ranks are numbers of ProcessMap.
//
// All nodes pass in the same messages in the same order, so each comes to the same result.
#pragma once

#include "peer_message.hpp"

namespace nacre::pmix {

// Made of both numbers, so that no two pairs have the same; small if they are small, and never 0.
[[nodiscard]] std::uint64_t context_id(std::uint64_t number, std::uint32_t node);

class Groups {
 public:
  enum class Kind : char { construct = 'c', destruct = 'd' };
  enum class End : std::uint8_t {
    whole,
    partial,   // without members that have ended
    lost,      // a member has ended
    timed_out  // a node does not wait any longer
  };
  struct Part {
    std::uint64_t number = 0;  // the node's own, used once
    bool is_whole = true;      // no member of the node has ended
    bool wants_id = false;
    bool is_optional = false;  // it is no error if members have ended
    std::string bytes;

    bool operator==(const Part&) const = default;
  };
  struct Outcome {
    End end = End::whole;
    std::uint64_t id = 0;  // 0: nobody wants one
    std::string all;       // the nodes' bytes, in the order of the nodes
    std::vector<Rank> members;
  };
  using Done = std::function<void(const Outcome& outcome)>;
  // What this node reports to all nodes because others wait for it.
  struct Notices {
    std::vector<Rank> ended;
    std::vector<std::uint32_t> lost;
  };

  // `processes`: has to outlive this object.
  Groups(const ProcessMap& processes, std::uint32_t here) : processes_(processes), here_(here) {}

  static std::string name_of(Kind kind, const std::vector<Rank>& members, const std::string& group);
  static PeerMessage message_of(const std::string& name, Part part);
  static Part part_of(const PeerMessage& message);  // it has three texts

  // This node's members have come, and its part is being sent to all.
  void enter(std::uint64_t number, Done done) { waiting_[number] = std::move(done); }
  // The members have got their answer, so nothing waits for this part any more.
  void leave(std::uint64_t number) { waiting_.erase(number); }

  // What all nodes receive, in one order.
  void part(std::uint32_t node, const std::string& name, Part part);
  void give_up(std::uint32_t node, const std::string& name, std::uint64_t number);
  void ended(Rank rank);
  void over(std::uint32_t node);

  // What only this node knows so far.
  void ended_here(Rank rank) { ended_here_.insert(rank); }
  void lost(std::uint32_t node) { lost_.insert(node); }
  [[nodiscard]] Notices take_notices();  // gives each once

 private:
  struct Group {
    bool is_optional = false;  // the group is destructed
    std::map<std::uint32_t, std::vector<Rank>> members;
    std::map<std::uint32_t, std::deque<Part>> parts;
    std::map<std::uint32_t, std::deque<End>> late;  // how operations have ended that a node has yet to give parts
                                                    // for
  };

  Group* find(const std::string& name);  // nullptr: there is none, or this node has no member
  void settle(Group& group, const std::string& name);
  void settle_all();
  bool take_late(Group& group, std::uint32_t node, std::uint64_t number);
  [[nodiscard]] static bool is_given(const Group& group, std::uint32_t node);
  [[nodiscard]] bool has_living(const Group& group, std::uint32_t node) const;
  [[nodiscard]] bool misses_some(const Group& group) const;
  [[nodiscard]] static bool is_waited_for(const Group& group);
  [[nodiscard]] std::uint32_t reporter(const Group& group) const;
  void finish(Group& group, End end);
  void answer(std::uint64_t number, Outcome outcome);
  void answer_all();

  const ProcessMap& processes_;
  std::uint32_t here_;
  std::map<std::string, Group> groups_;
  std::map<std::uint64_t, Done> waiting_;  // by the number of the part
  std::vector<std::pair<Done, Outcome>> answers_;
  std::set<Rank> ended_, ended_here_, reported_ended_;
  std::set<std::uint32_t> over_, lost_, reported_lost_;
};

// What the members of a group have put, as nodes send it to each other: a piece for each node, one after the other.
// Up to version 5 libpmix passes on bytes; from 6 on infos.
struct GroupPiece {
  enum class Kind : char { bytes = 'b', infos = 'i' };
  Kind kind = Kind::bytes;
  std::string content;

  bool operator==(const GroupPiece&) const = default;
};

[[nodiscard]] std::string text_of(const GroupPiece& piece);
// The pieces up to the first invalid one.
[[nodiscard]] std::vector<GroupPiece> pieces_in(std::string_view text);

}  // namespace nacre::pmix
