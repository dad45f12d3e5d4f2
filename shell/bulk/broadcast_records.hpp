// SPDX-License-Identifier: Apache-2.0
//
// What one shell has of the broadcast: announces it to its owner, keeps it for the shells that it feeds, and knows
// up to where all shells have it. It gets records from its owner (on the leader) or from above.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "bulk/child.hpp"
#include "bulk/effect.hpp"
#include "bulk/options.hpp"
#include "bulk/store.hpp"
#include "bulk/wire.hpp"

namespace nacre::bulk {

class BroadcastRecords {
 public:
  // Both have to outlive it.
  BroadcastRecords(const BulkOptions& options, BulkOutbox& out)
      : options_(options), out_(out), started_(!options.newcomer) {}

  // As those of BulkNode.
  Result<bool> broadcast(Channel channel, std::string_view bytes);
  Result<void> end(Channel channel);
  void consumed(Numbered number);

  // ---- what comes from above
  Result<void> take(const BulkRecord& record);
  void drop(Numbered stable);            // all shells have taken up to here
  void drop_stable() { drop(stable_); }  // also what came after it was known to be stable

  // Leader: all members of the view have taken up to here.
  void all_have(Numbered number);

  // ---- what goes down
  void feed(BulkChild& child, std::string& out) const;  // appends the next records that it has not been sent
  void notify(BulkChild& child, std::string& out) const;

  [[nodiscard]] bool started() const { return started_; }  // knows where the broadcast begins
  [[nodiscard]] Numbered have() const { return store_.have(); }
  [[nodiscard]] Numbered consumed() const { return std::min(consumed_, store_.have()); }
  [[nodiscard]] std::size_t bytes() const { return store_.bytes(); }

 private:
  Result<void> start(const BulkRecord& record);
  void add(BulkKind kind, Channel channel, std::string_view bytes);
  void cut_off();

  const BulkOptions& options_;
  BulkOutbox& out_;
  BroadcastStore store_;
  std::size_t wants_ = 0;  // bytes that broadcast() has refused
  bool started_;
  bool cut_off_ = false;   // the broadcast goes on without this shell
  Numbered first_ = 0;     // newcomer: up to here nothing is announced
  Numbered consumed_ = 0;  // the owner has consumed up to here
  Numbered stable_ = 0;    // all shells have taken up to here, as far as this one knows
};

}  // namespace nacre::bulk
