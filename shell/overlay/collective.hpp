// SPDX-License-Identifier: Apache-2.0
//
// Collectives: each member of the view enters once under a name, with a part. The parts are merged on the way up;
// the leader sends the value down in RELEASE entries. A value is bytes, encoded as doc/protocol.md has it
// ("Values"), and is cut into pieces.
#pragma once

#include "overlay/message.hpp"

namespace nacre::overlay {

inline constexpr std::size_t kMaxPart = std::size_t{64} << 20;  // bytes of one member's part

// The merged value. Gathered: for each part, the members that gave it.
using Gathered = std::map<Bytes, Idset>;
using Unique = std::set<Bytes>;
using Value = std::variant<std::int64_t, Gathered, Unique>;

// The part of one member: a number for max and sum, bytes for the others (for a set: one element).
using Own = std::variant<std::int64_t, Bytes>;

Result<Value> value_of(Merge merge, Id origin, const Own& part);
// Both values are of the kind that `merge` needs.
void merge_into(Merge merge, Value& value, Value other);
Bytes encode_value(const Value& value);
Result<Value> decode_value(Merge merge, std::string_view bytes);

// Bytes that come in pieces, in order. A piece at 0 starts anew.
class Pieces {
 public:
  // True when this piece completes the bytes. A piece that does not fit is ignored.
  bool add(std::uint64_t at, std::uint64_t total, std::string_view data);
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
  bool whole_ = false;
};

// Calls each(at, total, data) for each piece of at most `piece` bytes; once if there are no bytes.
template <typename F>
void cut(const Bytes& bytes, std::size_t piece, F each) {
  std::size_t at = 0;
  do {
    each(at, bytes.size(), bytes.substr(at, piece));
    at += piece;
  } while (at < bytes.size());
}

// What one child has sent in this view.
struct Below {
  Pieces pieces;
  std::optional<Value> value;
};

// Merges all parts that are there; there is at least one.
Value merged(Merge merge, std::optional<Value> own, std::vector<Below> below);

// A collective that has not been released, as one member sees it.
struct Collective {
  std::string name;
  Scope scope;
  Merge merge = Merge::max;
  std::optional<Value> own;
  std::vector<Below> below;  // by the child's index
  bool sent = false;         // to the parent, in this view
  bool changed = false;      // since the last look whether all parts are there
};

}  // namespace nacre::overlay
