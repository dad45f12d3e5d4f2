// SPDX-License-Identifier: Apache-2.0
//
// PMI keys between the nodes of a job. Each barrier of the tasks is a collective of the shells, to which each gives
// the keys that its tasks have put since the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "plugin/host.hpp"
#include "plugins/pmi/start.hpp"
#include "pmi/key_exchange.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class PmiExchange final : public pmi::KeyExchange {
 public:
  // Called before a barrier opens, with the ranks that have gone without finalize from nodes that abstain: whether
  // it may open without them. If not, the job is being ended.
  using MayOpen = std::function<bool(const value::Idset& missing)>;

  // `most`: the limit for the keys of one node, in bytes. `missed` is called when the others have been in a barrier
  // from which this node abstained. This shell takes part in `start`.
  PmiExchange(plugin::Host& host, std::uint64_t most, std::function<void()> missed, MayOpen may_open,
              const PmiStart& start)
      : host_(host),
        most_(most),
        missed_(std::move(missed)),
        may_open_(std::move(may_open)),
        start_(start.number),
        last_(start.last) {}

  void fence(const pmi::EntryRefs& mine, Done done) override;
  // No task of this node will enter a barrier again; those of other nodes do not wait for it. `missing`: the ranks
  // of those that have not finalized.
  void abstain(const value::Idset& missing);
  // While it is to be decided what becomes of tasks of this lost shell no barrier opens without them.
  void hold(std::uint32_t shell) { held_for_.insert(shell); }
  void release(std::uint32_t shell);
  // Of the barrier that this node entered last, or from which it abstained: the same on all nodes, and no other's.
  [[nodiscard]] std::uint64_t number() const { return start_ << 32U | count_; }

 private:
  void give(std::string mine, Done done);
  void give_nothing();
  void answered(const Result<plugin::Gathered>& gathered, bool abstained, const Done& done);
  [[nodiscard]] static Result<value::Idset> missing_in(const plugin::Gathered& gathered);
  [[nodiscard]] Result<pmi::Entries> others_in(const plugin::Gathered& gathered) const;

  plugin::Host& host_;
  std::uint64_t most_;
  std::function<void()> missed_;
  MayOpen may_open_;
  std::uint64_t start_;
  std::uint32_t last_;   // no shell behind this one takes part
  std::string nothing_;  // what this node gives once it abstains
  std::uint64_t count_ = 0;
  bool waiting_ = false;
  bool abstains_ = false;
  value::Idset held_for_;        // shells
  std::function<void()> held_;   // what is to be done once there are none
  plugin::Registration answer_;  // for the current barrier
};

}  // namespace nacre::plugins
