// SPDX-License-Identifier: Apache-2.0
//
// What a shell announces to ask for restarts of its tasks: ends that it keeps back, each with how long the task
// ran; and that all tasks are to start again.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "core/kept_end.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class RestartRequests {
 public:
  using Rank = value::Idset::Id;
  using KeptEnds = std::map<Rank, KeptEnd>;
  using Refuse = std::function<void(Rank)>;

  // It has to outlive this object.
  explicit RestartRequests(plugin::Host& host) : host_(host) {}

  // Tasks that are asked for alone start again with all tasks of this shell (scope=node).
  void take_node() { takes_node_ = true; }
  void started(Rank rank);
  void add(Rank rank) { unsent_.push_back(rank); }  // its end is to be announced
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  // Announces those of them that `kept` still has as asked. `refuse` is called for those for which that fails.
  void send(const KeptEnds& kept, const Refuse& refuse);
  // By nacre restart: all tasks of the job.
  void order_all();

 private:
  void send(const KeptEnds& kept, bool whole, bool ordered, const std::vector<Rank>& ranks, const Refuse& refuse);

  plugin::Host& host_;
  std::map<Rank, event::Seconds> started_;  // when
  std::vector<Rank> unsent_;
  bool takes_node_ = false;
};

}  // namespace nacre::core
