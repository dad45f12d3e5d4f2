// SPDX-License-Identifier: Apache-2.0
//
// How the nodes of a job receive each other's keys in a barrier. A job of one node needs none of this.
#pragma once

#include "pmi/kvs.hpp"

namespace nacre::pmi {

// The processes of a barrier of PMI 1.2, as clients name them: "0,2,5:TAG", "WORLD:TAG" or "NODE:TAG". Several
// barriers of the same processes can be under way with different tags.

struct BarrierGroup {
  std::string members;               // "0-2,5", "WORLD" or "NODE"
  std::int32_t tag = 0;              // 0 if the client gave none
  std::vector<std::uint32_t> ranks;  // ascending, each once; empty for NODE and WORLD

  [[nodiscard]] bool is_world() const { return members == "WORLD"; }
  [[nodiscard]] bool is_node() const { return members == "NODE"; }
  // The same for all of its processes, in whatever order they name themselves.
  [[nodiscard]] std::string name() const { return fmt::format("{}:{}", members, tag); }

  // `size`: of all processes. An error names what is wrong.
  static Result<BarrierGroup> parse(std::string_view text, std::uint32_t size);
};

class KeyExchange {
 public:
  // The keys of the other nodes; an error if the nodes did not agree.
  using Done = std::function<void(Result<Entries> others)>;

  virtual ~KeyExchange() = default;
  // All clients of this node are in the barrier, and have put `mine` since the last one. Calls `done` once, when
  // all nodes are there, perhaps before fence() returns. `mine` has to be valid until fence() returns.
  virtual void fence(const EntryRefs& mine, Done done) = 0;
  // The same for a group of processes, some of which are here. Barriers with one name come one after the other;
  // those with several names may be under way at the same time.
  virtual void fence_group(const BarrierGroup& group, const EntryRefs& mine, Done done) = 0;
  // `awaited` is called with a group that waits on other nodes for this one; some of its processes are here.
  using Awaited = std::function<void(const BarrierGroup& group)>;
  virtual void when_awaited(Awaited /*awaited*/) {}
};

// For a job with one node.
class NoExchange final : public KeyExchange {
 public:
  void fence(const EntryRefs&, Done done) override { done(Entries()); }
  void fence_group(const BarrierGroup&, const EntryRefs&, Done done) override { done(Entries()); }
};

// Keys and values as bytes, for the way between nodes: each key and each value after its length in 4 bytes, the
// highest first. An error: the bytes are malformed, or more than `most`.
inline constexpr std::uint64_t kMaxEntries = std::uint64_t{64} << 20;  // bytes
[[nodiscard]] std::string encode_entries(const Entries& entries);
[[nodiscard]] std::string encode_refs(const EntryRefs& entries);
Result<Entries> decode_entries(std::string_view bytes, std::uint64_t most = kMaxEntries);

// For a job whose shells do not know each other.
class BrokenExchange final : public KeyExchange {
 public:
  explicit BrokenExchange(Error why) : why_(std::move(why)) {}
  void fence(const EntryRefs&, Done done) override { done(why_); }
  void fence_group(const BarrierGroup&, const EntryRefs&, Done done) override { done(why_); }

 private:
  Error why_;
};

}  // namespace nacre::pmi
