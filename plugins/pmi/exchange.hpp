// SPDX-License-Identifier: Apache-2.0
//
// PMI keys between the nodes of a job: each barrier of the tasks is a collective of the shells, in which each gives the keys
// that its tasks have put since the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "plugin/host.hpp"
#include "pmi/key_exchange.hpp"

namespace nacre::plugins {

class PmiExchange final : public pmi::KeyExchange {
 public:
  // `most`: bytes that the keys of one node may have. `missed`: the others have been in a barrier that this node has
  // abstained from.
  PmiExchange(plugin::Host& host, std::uint64_t most, std::function<void()> missed)
      : host_(host), most_(most), missed_(std::move(missed)) {}

  void fence(const pmi::EntryRefs& mine, Done done) override;
  // No task of this node will be in a barrier again: those of the others are not kept waiting.
  void abstain();
  // How many this node has been in, or has abstained from.
  [[nodiscard]] std::uint64_t fences() const { return count_; }

 private:
  void give(std::string mine, Done done);
  void give_nothing();
  [[nodiscard]] Result<pmi::Entries> others_in(const plugin::Gathered& gathered) const;

  plugin::Host& host_;
  std::uint64_t most_;
  std::function<void()> missed_;
  std::uint64_t count_ = 0;
  bool waiting_ = false;
  bool abstains_ = false;
  plugin::Registration answer_;  // of the one that is waited for
};

}  // namespace nacre::plugins
