// SPDX-License-Identifier: Apache-2.0
//
// How the nodes of a job come to know each other's keys: the seam below a barrier. A job of one node needs none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "pmi/kvs.hpp"

namespace nacre::pmi {

class KeyExchange {
 public:
  // The keys of the other nodes; an error if the nodes could not agree.
  using Done = std::function<void(Result<Entries> others)>;

  virtual ~KeyExchange() = default;
  // All clients of this node are in the barrier, and have put `mine` since the last one. Calls `done` once, when all
  // nodes are; perhaps before it returns. What `mine` refers to may go once it has.
  virtual void fence(const EntryRefs& mine, Done done) = 0;
};

// Of a job with one node.
class NoExchange final : public KeyExchange {
 public:
  void fence(const EntryRefs&, Done done) override { done(Entries()); }
};

// Keys and values as bytes, for the way between nodes: for each its key and its value, each behind its length in 4 bytes, the
// highest first. An error: bytes that are none, or more than `most`.
inline constexpr std::uint64_t kMaxEntries = std::uint64_t{64} << 20;  // bytes
[[nodiscard]] std::string encode_entries(const Entries& entries);
[[nodiscard]] std::string encode_refs(const EntryRefs& entries);
Result<Entries> decode_entries(std::string_view bytes, std::uint64_t most = kMaxEntries);

// Of a job whose shells do not know each other.
class BrokenExchange final : public KeyExchange {
 public:
  explicit BrokenExchange(Error why) : why_(std::move(why)) {}
  void fence(const EntryRefs&, Done done) override { done(why_); }

 private:
  Error why_;
};

}  // namespace nacre::pmi
