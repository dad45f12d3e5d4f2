// SPDX-License-Identifier: Apache-2.0
//
// PMI keys of a process group between the nodes of a job. Each barrier of the group is a collective of the shells,
// to which each gives the keys that its processes have put since the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "plugin/host.hpp"
#include "pmi/key_exchange.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class PmiExchange final : public pmi::KeyExchange {
 public:
  // Called before a barrier opens, with the ranks that have gone without finalize from nodes that abstain: whether
  // it may open without them. If not, the job is being ended.
  using MayOpen = std::function<bool(const value::Idset& missing)>;

  struct Barriers {
    std::string name;         // of the collectives, before a dot and the number of each; no other exchange has it
    std::uint32_t last = 0;   // the shells up to this one take part, this one among them
    std::uint64_t start = 1;  // of the tasks, as PmiStart::number
  };

  // `most`: the limit for the keys of one node, in bytes. `missed` is called when the others have been in a barrier
  // from which this node abstained.
  PmiExchange(plugin::Host& host, std::uint64_t most, std::function<void()> missed, MayOpen may_open,
              Barriers barriers)
      : host_(host),
        most_(most),
        missed_(std::move(missed)),
        may_open_(std::move(may_open)),
        barriers_(std::move(barriers)) {}

  void fence(const pmi::EntryRefs& mine, Done done) override;
  // No process of this node will enter a barrier again; those of other nodes do not wait for it. `missing`: the
  // ranks of those that have not finalized.
  void abstain(const value::Idset& missing);
  // While it is to be decided what becomes of tasks of this lost shell no barrier opens without them.
  void hold(std::uint32_t shell) { held_for_.insert(shell); }
  void release(std::uint32_t shell);
  [[nodiscard]] bool over() const { return over_; }  // all nodes abstain
  // Of the barrier that this node entered last, or from which it abstained: the same on all nodes, and no other's.
  [[nodiscard]] std::uint64_t number() const { return barriers_.start << 32U | count_; }

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
  Barriers barriers_;
  std::string nothing_;  // what this node gives once it abstains
  std::uint64_t count_ = 0;
  bool waiting_ = false;
  bool abstains_ = false;
  value::Idset held_for_;       // shells
  std::function<void()> held_;  // what is to be done once there are none
  bool over_ = false;
  plugin::Registration answer_;  // for the current barrier
};

}  // namespace nacre::plugins
