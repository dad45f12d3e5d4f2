// SPDX-License-Identifier: Apache-2.0
//
// How the nodes of a job come to know each other's keys: the seam below a barrier. A job of one node needs none.
#pragma once

#include <functional>

#include "base/result.hpp"
#include "pmi/kvs.hpp"

namespace nacre::pmi {

class Exchange {
 public:
  // The keys of the other nodes; an error if the nodes could not agree.
  using Done = std::function<void(const Result<Entries>& others)>;

  virtual ~Exchange() = default;
  // All clients of this node are in the barrier, and have put `mine` since the last one. Calls `done` once, when all
  // nodes are; perhaps before it returns.
  virtual void fence(Entries mine, Done done) = 0;
};

// Of a job with one node.
class NoExchange final : public Exchange {
 public:
  void fence(Entries, Done done) override { done(Entries()); }
};

// Of a job whose shells do not know each other.
class BrokenExchange final : public Exchange {
 public:
  explicit BrokenExchange(Error why) : why_(std::move(why)) {}
  void fence(Entries, Done done) override { done(why_); }

 private:
  Error why_;
};

}  // namespace nacre::pmi
