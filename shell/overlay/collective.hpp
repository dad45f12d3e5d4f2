// SPDX-License-Identifier: Apache-2.0
//
// Collectives: each member of the view enters once under a name, with a part; parts are merged on the way up, and the value
// comes back as RELEASE entries. A value is bytes, encoded as doc/protocol.md says ("Values"), cut into pieces.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "overlay/message.hpp"

namespace nacre::overlay {

inline constexpr std::size_t kMaxPart = std::size_t{64} << 20;  // bytes that one member may give

// What came together. Gathered: by the bytes, whose they are.
using Gathered = std::map<Bytes, Idset>;
using Unique = std::set<Bytes>;
using Value = std::variant<std::int64_t, Gathered, Unique>;

// The part of one member: a number for max and sum, else bytes (of a set: one element).
using Own = std::variant<std::int64_t, Bytes>;

Result<Value> value_of(Merge merge, Id origin, const Own& part);
// Both are of the kind that `merge` asks for.
void merge_into(Merge merge, Value& value, Value other);
Bytes encode_value(const Value& value);
Result<Value> decode_value(Merge merge, std::string_view bytes);

// Bytes that come in pieces, in order. A piece that begins at 0 starts over.
class Pieces {
 public:
  // Whether it is whole with this one. A piece that does not fit is passed over.
  bool add(std::uint64_t at, std::uint64_t total, std::string_view data);
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
  bool whole_ = false;
};

// Calls each(at, total, data) for pieces of this size of these bytes, at least once.
template <typename F>
void cut(const Bytes& bytes, std::size_t piece, F each) {
  std::size_t at = 0;
  do {
    each(at, bytes.size(), bytes.substr(at, piece));
    at += piece;
  } while (at < bytes.size());
}

// What a child has sent in this view.
struct Below {
  Pieces pieces;
  std::optional<Value> value;
};

// Of what is there, at least one.
Value merged(Merge merge, std::optional<Value> own, std::vector<Below> below);

// One that has not been released, as one member sees it.
struct Collective {
  std::string name;
  Scope scope;
  Merge merge = Merge::max;
  std::optional<Value> own;
  std::vector<Below> below;  // by the child's index
  bool sent = false;         // to the parent, in this view
  bool changed = false;      // since it was last seen whether all is there
};

}  // namespace nacre::overlay
