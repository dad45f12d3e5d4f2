// SPDX-License-Identifier: Apache-2.0
//
// One node on a bench: what it asks for as words, one effect after the other.
#pragma once

#include "catch.hpp"

#include "bulk/node.hpp"

namespace nacre::bulk {

inline constexpr LinkName kUp{9, Side::up};
inline constexpr Channel kAnswers = 8;
inline LinkName below(Id id) { return {id, Side::down}; }

// Small enough to be full after two records of 10 bytes.
inline Limits small() {
  Limits out;
  out.record = 10;
  out.window = out.broadcast = 2 * (kHead + 10);
  out.link = 2 * (kHead + 10);
  out.write = 1;
  return out;
}

inline std::string note(const Note& each) {
  std::string out;
  append_note(out, each);
  return out;
}
inline std::string up_record(Id origin, std::uint32_t attempt, Numbered number, std::string_view bytes,
                             Channel channel = 5) {
  std::string out;
  append_record(out, {bytes.empty() ? BulkKind::end : BulkKind::data, channel, tag_of(origin, attempt), number, 0},
                bytes);
  return out;
}
// The record with which an attempt of an origin begins: its first number, and the channels that had ended by then.
inline std::string up_start(Id origin, std::uint32_t attempt, Numbered number,
                            const std::vector<Channel>& ended = {}) {
  std::string bytes;
  for (Channel each : ended) append_channel(bytes, each);
  std::string out;
  append_record(out, {BulkKind::start, 0, tag_of(origin, attempt), number, 0}, bytes);
  return out;
}
inline std::string down_record(Numbered stable, Numbered number, std::string_view bytes, Channel channel = 5) {
  std::string out;
  append_record(out, {bytes.empty() ? BulkKind::end : BulkKind::data, channel, stable, number, 0}, bytes);
  return out;
}
inline std::string start_record(Numbered kept, Numbered number, const std::vector<Channel>& ended) {
  std::string bytes;
  for (Channel each : ended) append_channel(bytes, each);
  std::string out;
  append_record(out, {BulkKind::start, 0, number, kept, 0}, bytes);
  return out;
}

class Bench {
 public:
  explicit Bench(Id self, Limits limits = small(), bool newcomer = false)
      : node(BulkOptions{self, newcomer, limits, {kAnswers}}) {}

  // Carries out what the node asks for, without a check.
  void set_up() { (void)asks(); }
  // Gives the node bytes from a link, and returns what it has asked for since the last call, without credit.
  std::string hears(LinkName from, StreamId stream, std::string_view bytes) {
    auto done = node.received(from, stream, bytes);
    std::string asked = asks();
    return done ? asked : "ERROR " + done.error().message;
  }
  // Returns what the node has asked for; its writes are taken at once.
  std::string asks() {
    std::string out;
    granted = 0;
    for (bool more = true; more;) {
      more = false;
      for (const BulkEffect& each : node.take_effects()) {
        more = true;
        std::string text = std::visit([](const auto& effect) { return words(effect); }, each);
        if (!text.empty()) out += (out.empty() ? "" : "; ") + text;
        const auto* grant = std::get_if<Grant>(&each);
        if (grant != nullptr && grant->stream == kRecords) granted += grant->bytes;
        const auto* write = std::get_if<Write>(&each);
        if (write != nullptr && take_writes) node.written(write->to, write->stream);
      }
    }
    return out;
  }

  BulkNode node;
  bool take_writes = true;
  std::size_t granted = 0;  // bytes of records, by the last asks()

 private:
  static std::string name(LinkName link) {
    return fmt::format("{}{}", link.side == Side::up ? '^' : 'v', link.peer);
  }
  static std::string words(const BulkHello& m) {
    return m.newcomer ? "hello newcomer" : fmt::format("hello {}", m.have);
  }
  static std::string words(const Heard& m) { return fmt::format("heard {} in {}", m.number, m.view); }
  static std::string words(const Taken& m) { return fmt::format("taken {}:{}", m.origin, m.number); }
  static std::string words(const Path& /*m*/) { return "path"; }
  static std::string words(const Stable& m) { return fmt::format("stable {}", m.number); }
  static std::string words(const BulkRecord& m, Direction way) {
    if (m.head.kind == BulkKind::start && way == Direction::up)
      return fmt::format("{}.{}:{} start +{}", origin_of(m.head), attempt_of(m.head), m.head.number,
                         m.bytes.size() / 2);
    if (m.head.kind == BulkKind::start)
      return fmt::format("start {} {} +{}", m.head.number, m.head.tag, m.bytes.size() / 2);
    std::string what = m.head.kind == BulkKind::end ? "end" : std::string(m.bytes);
    if (way == Direction::down) return fmt::format("{}({}) {}", m.head.number, m.head.tag, what);
    return fmt::format("{}.{}:{} {}", origin_of(m.head), attempt_of(m.head), m.head.number, what);
  }

  static std::string words(const Write& m) {
    std::string out = name(m.to);
    Direction way = m.to.side == Side::up ? Direction::up : Direction::down;
    NoteReader notes(way);
    BulkRecordReader records(way, kMaxRecord);
    m.stream == kNotes ? notes.add(m.bytes) : records.add(m.bytes);
    for (auto each = notes.next(); each && *each; each = notes.next()) {
      out += " " + std::visit([](const auto& body) { return words(body); }, **each);
    }
    for (auto each = records.next(); each && *each; each = records.next()) out += " " + words(**each, way);
    REQUIRE(notes.unread() + records.unread() == 0);
    return out;
  }
  static std::string words(const Grant& /*m*/) { return ""; }
  static std::string words(const DeliverRecord& m) {
    return fmt::format("deliver {}:{} {}", m.origin, m.number, m.bytes.empty() ? "end" : m.bytes);
  }
  static std::string words(const Announce& m) {
    return fmt::format("announce {} {}", m.number, m.bytes.empty() ? "end" : m.bytes);
  }
  static std::string words(const Room& /*m*/) { return "room"; }
  static std::string words(const BroadcastRoom& /*m*/) { return "broadcast room"; }
  static std::string words(const CutOff& /*m*/) { return "cut off"; }
  static std::string words(const Drained& /*m*/) { return "drained"; }
  static std::string words(const WaitForMore& /*m*/) { return "wait"; }
};

}  // namespace nacre::bulk
