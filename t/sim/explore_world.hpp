// SPDX-License-Identifier: Apache-2.0
//
// One state of an exploration, of all members and of what is under way between them: what can happen next, what
// that leads to, and the invariants of doc/protocol.md that are checked after each step.
#pragma once

#include "explore_nodes.hpp"

namespace nacre::sim {

inline constexpr Id kMostExplored = 8;  // members

// What is explored.
struct Bounds {
  std::uint32_t members = 3;
  std::uint32_t terms = 2;   // of leaders; what a later one does is not followed
  std::uint32_t faults = 1;  // that strike
  std::uint32_t events = 1;  // that members ask the leader for
  std::uint32_t delays = 0;  // times that the clock goes on while something is under way
  bool crashes = true, freezes = false, cuts = false;
  bool arbiter = false;  // there is one, which may answer at any later moment
  std::uint64_t states = 50'000'000;
};

// The logs that any member has had, each as the log before it and one more entry.
class Logs {
 public:
  std::uint32_t append(std::uint32_t log, std::uint32_t entry, const Message& message);
  [[nodiscard]] Seq size(std::uint32_t log) const { return logs_[log].size; }
  [[nodiscard]] std::uint32_t cut(std::uint32_t log, Seq size) const;
  [[nodiscard]] bool begins(std::uint32_t log, std::uint32_t with) const {
    return size(with) <= size(log) && cut(log, size(with)) == with;
  }
  [[nodiscard]] std::uint32_t dead(std::uint32_t log) const { return logs_[log].dead; }  // a bit for each member

 private:
  struct Log {
    std::uint32_t before = 0, entry = 0, dead = 0;
    Seq size = 0;
    std::vector<std::uint32_t> next = {};
  };
  std::vector<Log> logs_{1};
};

struct Item {
  enum class Kind : std::uint8_t { answer, message, end };  // answer: of the dialled member, or of its host
  Kind kind = Kind::message;
  std::uint32_t text = 0;
  std::int32_t age = kNoAge;
};

struct Conn {
  std::uint8_t dialler = 0, dialled = 0;
  // By side, of which 0 is the dialler; see World.
  std::array<bool, 2> gone{}, half_closed{}, greeted{};
  std::array<std::vector<Item>, 2> under_way;  // to each side
  [[nodiscard]] std::uint8_t at(int side) const { return side == 0 ? dialler : dialled; }
};

struct Member {
  std::uint32_t node = kOver;
  std::uint32_t log = 0;
  Life life = Life::up;
  std::uint8_t frozen_for = 0;  // ticks
  bool faulty = false;
  std::uint32_t asks = 0;     // the arbiter, about these
  std::uint8_t asks_for = 0;  // ticks
};

struct Choice {
  enum class Kind : std::uint8_t { deliver, timer, clock, ask, crash, freeze, thaw, cut, heal, agree };
  Kind kind = Kind::clock;
  std::uint32_t a = 0;  // a member, a link, or for a cut a bit for each member of one side
  std::uint32_t b = 0;  // the side of a link; for a crash what is lost
};

struct Situation {
  std::array<Member, kMostExplored> members;
  std::vector<Conn> conns;
  std::uint64_t blocked = 0;                          // a bit for each pair
  std::uint32_t excluded = 0;                         // the arbiter has agreed that others go on without these
  bool agreed_soon = false;                           // long before these had waited for too long
  std::uint32_t complete = 0;                         // the log that all members have had
  std::vector<std::pair<std::uint64_t, Id>> leaders;  // of each term
  std::uint8_t faults = 0, events = 0, delays = 0;    // that may still come
  std::uint8_t cut_for = 0;                           // ticks
  std::uint8_t quiet = 0;                             // ticks since the last fault, or since all was well
  void write(std::string& out) const;
  void read(const std::string& from);
};

// Carries out choices, one after the other. `say`: a transcript goes to standard output.
class Explorer {
 public:
  Explorer(const Bounds& bounds, Nodes& nodes) : bounds_(bounds), nodes_(nodes) {}

  void begin();  // a job that has formed, to which nothing has been done
  void choices(std::vector<Choice>& out) const;
  void carry_out(const Choice& choice);  // throws Broken
  [[nodiscard]] bool is_beyond() const { return at.leaders.size() > bounds_.terms; }

  Situation at;
  bool says = false;
  bool was_at_rest = false;  // whether all was at rest in the last step of the clock

 private:
  [[nodiscard]] bool runs(Id id) const { return at.members[id].life == Life::up && lives(id); }
  [[nodiscard]] bool lives(Id id) const { return at.members[id].node != kOver; }
  [[nodiscard]] const Facts& facts(Id id) const { return nodes_.facts(at.members[id].node); }
  [[nodiscard]] bool is_blocked(Id a, Id b) const { return (at.blocked >> (a * kMostExplored + b) & 1U) != 0; }
  [[nodiscard]] bool can_deliver(const Conn& conn, int side) const;
  void add_faults(std::vector<Choice>& out) const;
  [[nodiscard]] std::uint32_t ways_to_lose(Id id) const;

  void call(Id id, const Input& input);
  void perform(Id id, const Done& done);
  void send(Id id, const Done& done);
  void let_go(Id id, LinkName link);
  void end_process(Id id, bool tells);
  void forget_ended();
  Conn* find(Id id, LinkName link);
  void deliver(std::size_t conn, int side);
  void answer(Id id, Id peer, std::size_t conn);
  void arrive(std::size_t conn, int side, const Item& item);
  void clock();
  void crash(Id id, std::uint32_t lost);
  void cut(std::uint32_t side);
  void stir();

  void leads(Id id, std::uint64_t term);
  void completed(Id id, Seq seq);
  [[nodiscard]] bool has_parted(Id id) const;
  void died(Id id, const std::string& why) const;
  [[nodiscard]] std::uint32_t member_bits() const;
  [[nodiscard]] bool has_majority_without_fault() const;
  [[nodiscard]] std::string unrest() const;  // why not all is well; "": all is well
  [[nodiscard]] std::string unrest_below(Id leader) const;
  void say(const Choice& choice) const;
  void say(Id id, const Done& done) const;
  [[nodiscard]] std::string words(const Choice& choice) const;
  [[nodiscard]] std::string words_of_item(const Conn& conn, int side) const;
  [[nodiscard]] std::string words_of_end(Id id, std::uint32_t lost) const;
  [[nodiscard]] std::string words_of_message(std::uint32_t text, std::int32_t age) const;
  template <typename F>
  void each_loss(Id id, std::uint32_t lost, F what) const;

  const Bounds& bounds_;
  Nodes& nodes_;
  Logs logs_;
};

}  // namespace nacre::sim
