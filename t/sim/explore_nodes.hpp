// SPDX-License-Identifier: Apache-2.0
//
// The nodes of an exploration: each state of a node is kept once, with what each call of it leads to.
//
// Two nodes are in the same state if NodeState::text() says so, whatever their clocks show. That they then go on
// alike is checked for some of them, by random inputs to both.
#pragma once

#include "host.hpp"
#include "random.hpp"

namespace nacre::sim {

inline constexpr Time kTick = kSecond;     // by which the clock goes on: all bounds of explored nodes are multiples
inline constexpr std::uint32_t kOver = 0;  // the state of a node that has ended
inline constexpr std::int32_t kNoAge = INT32_MIN;  // for messages that are no beats, or for beats without a number

enum class Act : std::uint8_t {
  append,  // an entry, to its log
  lead,
  send,
  dial,
  hang_up,
  half_close,
  show,         // an entry, to its owner
  show_own,     // likewise, which it has appended itself, and what its owner does by it is seen by others
  completed,    // all members have the entry
  ask_arbiter,  // about members, of which `number` has a bit each
  die,
  finish,
  note,
};

// What a node does in a call.
struct Done {
  Act act = Act::note;
  LinkName link;
  std::uint32_t text = 0;  // a message or a line: see Nodes
  std::int32_t age = kNoAge;
  std::uint64_t number = 0;  // of an entry, or a term
  bool operator==(const Done&) const = default;
};

struct Called {
  std::uint32_t next = kOver;  // the node's state
  std::vector<Done> deeds;
};

enum class Cause : std::uint8_t {
  time,
  message,
  linked,
  unlinked,
  refused,  // the link, as the host takes no connections
  ask,      // for an event
  agree,    // the arbiter, about members, of which `message` has a bit each
};

struct Input {
  Cause cause = Cause::time;
  LinkName link;
  std::uint32_t message = 0;
  std::int32_t age = kNoAge;  // of a beat, in milliseconds since it was made
};

// What other members may see of a state.
struct Facts {
  bool leads = false, is_member = false, is_fed = false, elects = false, waits = false;
  std::uint64_t term = 0;
  Seq applied = 0, complete = 0;
  std::uint32_t members = 0;  // a bit for each
  Id leader = 0;
  Time due{};  // from now on
};

class Nodes {
 public:
  Nodes();

  std::uint32_t start(OverlayOptions options);
  const Called& call(std::uint32_t node, const Input& input);
  std::uint32_t aged(std::uint32_t node);  // by one tick

  [[nodiscard]] const Facts& facts(std::uint32_t node) const { return states_[node].facts; }
  [[nodiscard]] const Message& message(std::uint32_t text) const { return messages_[text]; }
  [[nodiscard]] const std::string& line(std::uint32_t text) const { return lines_[text]; }
  [[nodiscard]] std::string text(std::uint32_t node) const;
  [[nodiscard]] std::size_t size() const { return states_.size() - 1; }

  std::uint64_t calls = 0;     // that were made
  std::uint64_t compared = 0;  // pairs of nodes in the same state
  std::uint64_t most_compared = 600;

 private:
  struct State {
    std::shared_ptr<const Node> node;
    Time now{};
    std::uint32_t aged = kOver;  // kOver: not known yet
    Facts facts;
  };
  struct Key {
    std::uint64_t node_and_message, rest;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };

  std::uint32_t intern(std::shared_ptr<const Node> node, Time now);
  Called perform(Node& node, Time now, const Input& input);
  void report(Node& node, Time now, const Input& input);
  void take(Node& node, Time now, Seq before, std::vector<Done>& deeds);
  Done deed(const Node& node, Time now, const Effect& effect);
  Done sent(LinkName to, Message message, Time now);
  Done shown(const Node& node, Seq seq);
  std::uint32_t keep(const Message& message);
  std::uint32_t keep(const std::string& line);
  void compare(const Node& a, Time now_a, const Node& b, Time now_b);
  Input any_input(std::uint32_t members);

  std::vector<State> states_;
  std::unordered_map<std::string, std::uint32_t> by_text_;
  std::unordered_map<Key, std::unique_ptr<Called>, Hash> calls_;
  std::vector<Message> messages_;
  std::unordered_map<std::string, std::uint32_t> by_frame_;
  std::vector<std::string> lines_;
  std::unordered_map<std::string, std::uint32_t> by_line_;
  Random random_{17};
};

}  // namespace nacre::sim
