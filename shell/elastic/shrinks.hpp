// SPDX-License-Identifier: Apache-2.0
//
// Shrinks, as the leader keeps them: which shells are about to leave, and who waits for that. It has no clock and
// no links: the owner reports what happens, and asks what is to be done.
//
//   asked -> leaving: its tasks end, and its output comes -> ready, lost, or overdue -> taken out -> gone
//
// Shells that are asked for at once leave at once. A shell that two orders name leaves once, and both have its end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "value/idset.hpp"
#include "value/shrunk.hpp"

namespace nacre::elastic {

class Shrinks {
 public:
  using Order = std::uint64_t;  // from 1
  using Idset = value::Idset;

  // Opens an order for these shells, which are not gone; at least one. `fresh` gets those that have to begin to
  // leave now: they are a batch of this number.
  Order open(const Idset& shells, Idset& fresh);

  void ready(std::uint32_t shell);  // it has ended its tasks, and put out what they have written
  // It is out of the job; `has_ended`: with its tasks, else it may just not answer. False: it is not about to
  // leave, so its loss is one.
  bool lost(std::uint32_t shell, bool has_ended);
  void overdue(Order batch);        // no shell of this batch is waited for any more
  // The next shells that can be taken out of the job, once.
  std::optional<Idset> take_ready();
  void ended(const value::Shrunk& shrunk);  // they have been taken out
  // An order that has ended, once.
  std::optional<std::pair<Order, value::Shrunk>> take_ended();

  [[nodiscard]] bool is_open() const { return !orders_.empty(); }
  [[nodiscard]] bool is_leaving(std::uint32_t shell) const { return leaving_.contains(shell); }
  // Those that are no longer of the job, or about to leave it.
  [[nodiscard]] Idset left() const { return leaving_ | over_; }

 private:
  struct Batch {
    Idset shells;   // that have not been taken out
    Idset waiting;  // of these: not ready
  };

  std::map<Order, Idset> orders_;   // by number: the shells of each
  std::map<Order, Batch> batches_;  // by the order that has opened it
  Idset leaving_;                   // asked, and not gone
  Idset over_;
  Idset unconfirmed_;  // of these
  Order last_ = 0;
};

}  // namespace nacre::elastic
