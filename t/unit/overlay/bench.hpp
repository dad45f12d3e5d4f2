// SPDX-License-Identifier: Apache-2.0
//
// One node on a bench: what it asks for as words, one effect after the other.
#pragma once

#include "overlay/node.hpp"

namespace nacre::overlay {

class Bench {
 public:
  explicit Bench(Id self, std::uint32_t members = 7, bool newcomer = false)
      : Bench(options(self, members, newcomer)) {}
  explicit Bench(OverlayOptions given) : node(std::move(given)) { node.tick(now); }

  static OverlayOptions options(Id self, std::uint32_t members, bool newcomer) {
    OverlayOptions out;
    out.job = 77;
    out.term = 3;
    out.self = self;
    out.members = members;
    out.arity = 2;
    out.newcomer = newcomer;
    return out;
  }

  // A member below dials and says HELLO; one above is dialled and says WELCOME.
  void below(Id id, Seq applied = 0, Seq view = 0) {
    node.linked({id, Side::down});
    say({id, Side::down}, Hello{id, Standing::member, applied, view, "", {}, 3});
  }
  void above(Id id) {
    node.linked({id, Side::up});
    say({id, Side::up}, Welcome{0, 0, {}, 3});
  }
  void say(LinkName from, Body body, std::uint64_t term = 3) { node.step(from, {77, term, std::move(body)}); }
  void entry(Id from, Seq seq, EntryBody body) { say({from, Side::up}, Entry{seq, {}, std::move(body)}); }
  void wait(milliseconds time) {
    constexpr milliseconds kStep{500};
    for (; time > kStep; time -= kStep) node.tick(now += kStep);
    node.tick(now += time);
  }
  void stand_still(milliseconds time) { node.tick(now += time); }

  // What the node has asked for since the last call, without beats and alarms.
  std::string asks() {
    std::string out;
    for (const Effect& each : node.take_effects()) {
      std::string text = std::visit([](const auto& effect) { return words(effect); }, each);
      if (!text.empty()) out += (out.empty() ? "" : "; ") + text;
    }
    return out;
  }

  // The beats that the node has sent to this side since the last call; other effects are dropped.
  std::string beats(Side side) {
    std::string out;
    for (const Effect& each : node.take_effects()) {
      const auto* send = std::get_if<Send>(&each);
      const auto* beat = send != nullptr ? std::get_if<Beat>(&send->message.body) : nullptr;
      if (beat == nullptr || send->to.side != side) continue;
      out += fmt::format("{}{} {}", out.empty() ? "" : "; ", name(send->to), beat->number);
      if (!beat->busy.empty()) out += " busy " + beat->busy.str();
    }
    return out;
  }

  Time now = seconds(1000);
  Node node;

 private:
  static std::string name(LinkName link) {
    return fmt::format("{}{}", link.side == Side::up ? '^' : 'v', link.peer);
  }
  static std::string words(const Send& m) {
    static constexpr const char* kNames[] = {"HELLO", "WELCOME", "ENTRY", "UP",  "BEAT",
                                             "REQ",   "BYE",     "CLAIM", "VOTE"};
    std::string out = fmt::format("{} {}", name(m.to), kNames[m.message.body.index()]);
    if (std::holds_alternative<Beat>(m.message.body)) return "";
    if (const auto* up = std::get_if<Up>(&m.message.body)) {
      out += fmt::format(" {}:{}", up->view, up->acked);
      if (!up->suspects.empty()) out += " suspects " + up->suspects.str();
      if (!up->gone.empty()) out += " gone " + up->gone.str();
      for (const TaskReport& each : up->exited) out += fmt::format(" exited {} {}", each.tasks.str(), each.what);
      for (const Part& each : up->parts) out += " part " + each.name;
    }
    if (const auto* hello = std::get_if<Hello>(&m.message.body)) {
      if (!hello->suspects.empty()) out += " suspects " + hello->suspects.str();
    }
    if (const auto* claim = std::get_if<Claim>(&m.message.body))
      out += fmt::format(" {} of {}{}", claim->ballot, claim->candidate, claim->trial ? " on trial" : "");
    if (const auto* vote = std::get_if<Vote>(&m.message.body))
      out += fmt::format(" {} for {} by {}", vote->ballot, vote->candidate, vote->voters.str());
    if (const auto* bye = std::get_if<Bye>(&m.message.body)) out += fmt::format(" {}", static_cast<int>(bye->why));
    return out;
  }
  static std::string words(const SendEntry& m) { return fmt::format("{} entry {}", name(m.to), m.seq); }
  static std::string words(const Dial& m) { return fmt::format("dial {}", m.peer); }
  static std::string words(const HangUp& m) { return fmt::format("hang up {}", name(m.link)); }
  static std::string words(const HalfClose& m) { return fmt::format("close {}", name(m.link)); }
  static std::string words(const Deliver& m) { return fmt::format("deliver {}", m.seq); }
  static std::string words(const TooLarge& m) { return fmt::format("overflow {} {}", m.name, m.size); }
  static std::string words(const Released& m) { return "released " + m.name; }
  static std::string words(const Publish& m) {
    return fmt::format("publish {}: {} bytes", m.entry, m.value.size());
  }
  static std::string words(const Unfit& m) { return fmt::format("unfit {}: {}", m.name, m.why); }
  static std::string words(const Completed& m) { return fmt::format("complete {}", m.seq); }
  static std::string words(const Reported& m) { return "reported " + m.started.str(); }
  static std::string words(const Joined& m) { return fmt::format("joined {}", m.view); }
  static std::string words(const Leave& /*m*/) { return "leave"; }
  static std::string words(const Die& /*m*/) { return "die"; }
  static std::string words(const Finished& /*m*/) { return "finished"; }
  static std::string words(const Arm& /*m*/) { return ""; }
  static std::string words(const Silent& /*m*/) { return ""; }
  static std::string words(const AskArbiter& ask) { return "ask about " + ask.others.str(); }
  static std::string words(const Note& /*m*/) { return "note"; }
};

inline Idset members(const char* text) { return *Idset::parse(text); }
inline View left(const char* ids) { return {{}, *Idset::parse(ids), {}}; }
inline View died(const char* ids) { return {{}, {}, *Idset::parse(ids)}; }

// Member 1, fed by 0, with both children.
struct Middle : Bench {
  Middle() : Bench(1) {
    above(0);
    below(3);
    below(4);
    say({3, Side::down}, Up{});
    say({4, Side::down}, Up{});
    asks();
  }
};

}  // namespace nacre::overlay
