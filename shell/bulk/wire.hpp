// SPDX-License-Identifier: Apache-2.0
//
// What goes over the two streams of a link that bulk uses, in each direction: doc/protocol.md, "Bulk", defines it
// byte by byte. Parsing is strict. What is read after an error has no meaning.
#pragma once

#include "bulk/options.hpp"

namespace nacre::bulk {

inline constexpr StreamId kNotes = 1;
inline constexpr StreamId kRecords = 2;

// ---- records -----------------------------------------------------------------------------

enum class BulkKind : std::uint8_t {
  data = 1,  // 1 to Limits::record bytes
  end = 2,   // no bytes: the channel has ended
  // Its bytes are the channels that have ended, 2 each, ascending. Up: an attempt of an origin begins here that is
  // not its first. Down: the broadcast begins here, for a newcomer, or for all if there is a new leader.
  start = 3,
};

struct Head {
  BulkKind kind = BulkKind::data;
  Channel channel = 0;
  std::uint64_t tag = 0;  // up: origin and attempt; down: the last number that all shells had when the record was
                          // made
  Numbered number = 0;
  std::uint32_t size = 0;  // bytes that follow
  bool operator==(const Head&) const = default;
};
[[nodiscard]] inline std::uint64_t tag_of(Id origin, std::uint32_t attempt) {
  return std::uint64_t{origin} << 32 | attempt;
}
[[nodiscard]] inline Id origin_of(const Head& head) { return static_cast<Id>(head.tag >> 32); }
[[nodiscard]] inline std::uint32_t attempt_of(const Head& head) { return static_cast<std::uint32_t>(head.tag); }

void append_record(std::string& out, Head head, std::string_view bytes);  // head.size is taken from the bytes
// Whether the owner may put this on a channel. EINVAL: no bytes; EMSGSIZE: too many; EPIPE: the channel has ended.
Result<void> check_record(const Limits& limits, const std::set<Channel>& ended, Channel channel,
                          std::string_view bytes);

struct BulkRecord {  // the views are valid until the next call of the reader
  Head head;
  std::string_view bytes;
  std::string_view whole;  // with its head
};

enum class Direction : std::uint8_t { up, down };

// Cuts a stream into records.
class BulkRecordReader {
 public:
  // `most`: bytes of a record.
  BulkRecordReader(Direction way, std::size_t most) : way_(way), most_(most) {}

  void add(std::string_view bytes);
  Result<std::optional<BulkRecord>> next();  // none: more bytes have to come
  [[nodiscard]] std::size_t unread() const { return bytes_.size() - at_; }

 private:
  Result<void> check_head(const Head& head) const;

  Direction way_;
  std::size_t most_;
  std::string bytes_;
  std::size_t at_ = 0;  // all before it has been read
};

// The channels of a start, one after the other; EPROTO unless they ascend.
void append_channel(std::string& out, Channel channel);
Result<std::vector<Channel>> ended_channels(std::string_view bytes);

// ---- notes -------------------------------------------------------------------------------

struct BulkHello {        // up, first: what this child has of the broadcast
  bool newcomer = false;  // it has not yet been sent where the broadcast begins for it
  Numbered have = 0;
  bool operator==(const BulkHello&) const = default;
};
struct Heard {  // up: the sender and all below it, in this view, have taken the broadcast up to here
  ViewNumber view = 0;
  Numbered number = 0;
  bool operator==(const Heard&) const = default;
};
struct Taken {  // down: the leader has taken this origin's records up to here
  Id origin = 0;
  Numbered number = 0;
  bool operator==(const Taken&) const = default;
};
struct Path {  // down: a link above is new, and what was under way may be lost
  bool operator==(const Path&) const = default;
};
struct Stable {  // down: all shells have taken the broadcast up to here
  Numbered number = 0;
  bool operator==(const Stable&) const = default;
};
using Note = std::variant<BulkHello, Heard, Taken, Path, Stable>;

void append_note(std::string& out, const Note& note);

// Cuts a stream into the notes of its direction.
class NoteReader {
 public:
  explicit NoteReader(Direction way) : way_(way) {}

  void add(std::string_view bytes) { bytes_ += bytes; }
  Result<std::optional<Note>> next();
  [[nodiscard]] std::size_t unread() const { return bytes_.size(); }

 private:
  Direction way_;
  std::string bytes_;
};

}  // namespace nacre::bulk
