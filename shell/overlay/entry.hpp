// SPDX-License-Identifier: Apache-2.0
//
// The entries of a job's log, and what a member may ask the leader for. doc/protocol.md defines each.
//
// Each is described here alone: its name and its fields as they are sent. fields(io, m) names each field once, for
// writing and reading (overlay/cbor.hpp); `m` is const where it is written.
#pragma once

#include "value/resizing.hpp"

namespace nacre::overlay {

// of a member: the first members have 0..size-1, of which 0 leads first; an id is never used twice
using Id = value::Idset::Id;
using Seq = std::uint64_t;   // of an entry, from 1; a view is named by the entry that made it, the first view is 0
using Bytes = std::string;   // opaque
using Idset = value::Idset;  // of members, or of tasks: each field has its own note

inline constexpr std::uint64_t kNoEnd = UINT64_MAX;

// Bytes of a collective's value: in one message, and at most.
inline constexpr std::size_t kPiece = std::size_t{256} << 10;
inline constexpr std::size_t kMaxValue = std::size_t{1} << 30;
// The log only promises a larger value. To load the code that makes a digest costs a shell 2 ms, as much as to read
// this many bytes.
inline constexpr std::size_t kMaxLogged = std::size_t{1} << 20;
inline constexpr std::size_t kDigest = 32;  // bytes
// Members that one answer names: as text they are far below the limit of an idset.
inline constexpr std::uint64_t kMaxNamed = 4096;

// The members whose parts a collective needs: those that joined at a view in from..to. The first members joined at
// 0.
struct Scope {
  Seq from = 0;
  Seq to = kNoEnd;
  bool operator==(const Scope&) const = default;
  static void fields(auto& io, auto& m) {
    io.number("from", m.from);
    io.number("to", m.to);
  }
};

// How parts become one value.
enum class Merge : std::uint8_t {
  gather,  // the parts with the ids of the members that gave them; equal parts once
  max,     // of numbers
  sum,     // of numbers; stops at the ends of the range
  set,     // of byte strings: each once, in order
};
inline constexpr std::array<std::string_view, 4> kMergeNames = {"gather", "max", "sum", "set"};

struct Newcomer {
  Id id = 0;
  std::string address;  // where others dial it
  bool operator==(const Newcomer&) const = default;
  static void fields(auto& io, auto& m) {
    io.number("id", m.id, Idset::kMaxId);
    io.text("address", m.address);
  }
};
struct View {
  static constexpr std::string_view kName = "view";
  std::vector<Newcomer> add;
  Idset leave;
  Idset dead;
  Id leader = 0;  // who leads from this entry on
  bool operator==(const View&) const = default;
  static void fields(auto& io, auto& m) {
    io.list("add", m.add);
    io.ids("leave", m.leave);
    io.ids("dead", m.dead);
    io.number("leader", m.leader, Idset::kMaxId);
  }
};
struct Release {  // a piece of the value of a collective; the last piece ends it
  static constexpr std::string_view kName = "release";
  std::string name;
  Scope scope;
  Merge merge = Merge::max;
  std::uint64_t at = 0;     // bytes before this piece
  std::uint64_t total = 0;  // bytes of all pieces
  Bytes data;
  bool operator==(const Release&) const = default;
  static void fields(auto& io, auto& m) {
    io.text("name", m.name);
    io.object("scope", m.scope);
    io.word("merge", m.merge, kMergeNames);
    io.number("at", m.at);
    io.number("total", m.total, kMaxValue);
    io.data("data", m.data);
    if constexpr (requires { io.fail("", ""); }) {
      if (m.at > m.total || m.data.size() > m.total - m.at) io.fail("at", "the piece goes beyond the total");
    }
  }
};
struct Promise {  // in place of a release: the value of a collective comes beside the log
  static constexpr std::string_view kName = "promise";
  std::string name;
  Scope scope;
  Merge merge = Merge::max;
  std::uint64_t size = 0;  // bytes of the value
  Bytes digest;            // SHA-256 of them
  bool operator==(const Promise&) const = default;
  static void fields(auto& io, auto& m) {
    io.text("name", m.name);
    io.object("scope", m.scope);
    io.word("merge", m.merge, kMergeNames);
    io.number("size", m.size, kMaxValue);
    io.data("digest", m.digest);
    if constexpr (requires { io.fail("", ""); }) {
      if (m.digest.size() != kDigest) io.fail("digest", "32 bytes");
    }
  }
};
struct Event {
  static constexpr std::string_view kName = "event";
  std::string name;
  Bytes data;
  bool operator==(const Event&) const = default;
  static void fields(auto& io, auto& m) {
    io.text("name", m.name);
    io.data("data", m.data);
  }
};
using ExecKind = value::ExecOrder::Kind;
inline constexpr std::array<std::string_view, 2> kExecKindNames = {"tasks", "tool"};
struct RankShare {
  Id member = 0;
  Idset ranks;  // of a tool: the ranks of the tasks that it runs beside, or none
  bool operator==(const RankShare&) const = default;
  static void fields(auto& io, auto& m) {
    io.number("member", m.member, Idset::kMaxId);
    io.ids("ranks", m.ranks);
  }
};
struct Exec {
  static constexpr std::string_view kName = "exec";
  Seq view = 0;  // the view that the map was made for; in the log: the view in which it holds
  std::vector<RankShare> map;
  Bytes command;
  bool strict = false;  // refused if a member of the map is not in the view; otherwise its ranks go to the others
  ExecKind kind = ExecKind::tasks;
  bool operator==(const Exec&) const = default;
  static void fields(auto& io, auto& m) {
    io.number("view", m.view);
    io.list("map", m.map);
    io.data("command", m.command);
    io.flag("strict", m.strict);
    io.word("starts", m.kind, kExecKindNames);
  }
};
struct Signal {
  static constexpr std::string_view kName = "signal";
  std::uint32_t number = 0;
  std::optional<Idset> ranks;  // none: all
  bool operator==(const Signal&) const = default;
  static void fields(auto& io, auto& m) {
    io.number("number", m.number);
    io.maybe_ids("ranks", m.ranks);
  }
};
struct ExceptionEntry {
  static constexpr std::string_view kName = "exception";
  std::string type;
  std::uint32_t severity = 0;
  Bytes note;
  bool operator==(const ExceptionEntry&) const = default;
  static void fields(auto& io, auto& m) {
    io.text("name", m.type);
    io.number("severity", m.severity);
    io.data("note", m.note);
  }
};
struct End {
  static constexpr std::string_view kName = "end";
  std::uint32_t code = 0;
  bool operator==(const End&) const = default;
  static void fields(auto& io, auto& m) { io.number("code", m.code); }
};
struct Shrink {
  static constexpr std::string_view kName = "shrink";
  Idset leave;
  bool operator==(const Shrink&) const = default;
  static void fields(auto& io, auto& m) { io.ids("leave", m.leave); }
};
struct Grow {
  static constexpr std::string_view kName = "grow";
  Idset add;
  std::uint64_t wait = 0;  // milliseconds to wait for the newcomers; those that have come by then join
  bool operator==(const Grow&) const = default;
  static void fields(auto& io, auto& m) {
    io.ids("add", m.add);
    io.number("wait", m.wait);
  }
};
struct Campaign {  // the single end of a shrink or grow
  static constexpr std::string_view kName = "campaign";
  bool grow = false;
  Seq view = 0;       // the entry that named the members; 0: there is none
  Idset done;         // these have gone, or have joined
  Idset unconfirmed;  // the others that it named
  bool operator==(const Campaign&) const = default;
  static void fields(auto& io, auto& m) {
    io.flag("grow", m.grow);
    io.number("view", m.view);
    io.ids("done", m.done);
    io.ids("unconfirmed", m.unconfirmed);
  }
};
struct Refused {
  static constexpr std::string_view kName = "refused";
  std::string why;
  Idset members;  // of a strict EXEC: the members of its map that do not exist, the first kMaxNamed of them
  bool operator==(const Refused&) const = default;
  static void fields(auto& io, auto& m) {
    io.text("why", m.why);
    io.ids("members", m.members);
  }
};

using EntryBody = std::variant<View, Release, Event, Exec, Signal, ExceptionEntry, End, Campaign, Refused, Promise>;
using RequestBody = std::variant<Event, Exec, Signal, ExceptionEntry, End, Shrink, Grow>;

struct RequestId {
  Id origin = 0;
  std::uint64_t number = 0;  // from 1; 0: no request
  bool operator==(const RequestId&) const = default;
  static void fields(auto& io, auto& m) {
    io.number("origin", m.origin, Idset::kMaxId);
    io.number("number", m.number);
  }
};

struct Entry {
  Seq seq = 0;
  RequestId request;  // the request that it answers
  EntryBody body;
  bool operator==(const Entry&) const = default;
};

}  // namespace nacre::overlay
