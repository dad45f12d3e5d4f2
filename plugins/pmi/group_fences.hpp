// SPDX-License-Identifier: Apache-2.0
//
// Barriers of some processes of a group (PMI 1.2) over nodes. Each shell that has some of them announces its part:
// that all of its own are in the barrier, and what this node has put. Announcements come to all shells in one
// order, so each of these shells finds the barrier full at the same place in it. The others take no notice.
#pragma once

#include "plugin/host.hpp"
#include "pmi/barrier_group.hpp"
#include "pmi/key_exchange.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

// The parts that shells announce, for all exchanges of a shell: those of one that is not there yet wait for it.
class PmiGroupParts : Noncopyable {
 public:
  using Receive = std::function<void(std::uint32_t shell, const std::string& group, Result<pmi::Entries> keys)>;

  explicit PmiGroupParts(plugin::Host& host);

  // What other shells and this one announce for the exchange of that name, perhaps before this returns.
  void listen(const std::string& exchange, Receive receive);
  void ignore(const std::string& exchange) { receivers_.erase(exchange); }
  // An error is announced in place of keys that are too many.
  Result<void> announce(const std::string& exchange, const std::string& group, const pmi::EntryRefs& keys);

 private:
  struct Part {
    std::string exchange;
    std::string group;
    std::uint32_t shell;
    Result<pmi::Entries> keys;
  };
  void receive(std::string_view bytes);

  plugin::Host& host_;
  std::map<std::string, Receive> receivers_;  // by exchange
  std::deque<Part> early_;
  plugin::Registration announcements_;
};

// The barriers of one exchange: a machine that is given what has come.
class PmiGroupFences {
 public:
  struct Calls {
    std::function<Result<void>(const std::string& group, const pmi::EntryRefs& keys)> announce;
    std::function<value::Idset(std::uint32_t shell)> ranks_on;
    // Asked once all parts of a barrier are there; settle_all() asks again.
    std::function<bool(const pmi::BarrierGroup& group)> may_open = [](const pmi::BarrierGroup&) { return true; };
  };
  // Shell `own`, of those up to `last`.
  PmiGroupFences(std::uint32_t own, std::uint32_t last, Calls calls)
      : own_(own), last_(last), calls_(std::move(calls)) {}

  void fence(const pmi::BarrierGroup& group, const pmi::EntryRefs& mine, pmi::KeyExchange::Done done);
  void when_awaited(pmi::KeyExchange::Awaited awaited);  // also for what has come before
  void part(std::uint32_t shell, const std::string& name, Result<pmi::Entries> keys);
  void gone(std::uint32_t shell);  // nobody waits for it any more
  void settle_all();

 private:
  struct Group {
    pmi::BarrierGroup group;
    value::Idset shells;  // that have some of its processes
    std::map<std::uint32_t, std::deque<Result<pmi::Entries>>> parts;
    pmi::KeyExchange::Done done;  // this shell has been for the barrier
    bool told = false;            // that others wait
  };

  Group* find(const pmi::BarrierGroup& group);  // null: this shell has none of them
  void settle(const std::string& name);
  [[nodiscard]] bool is_full(const Group& group) const;

  std::uint32_t own_;
  std::uint32_t last_;
  Calls calls_;
  pmi::KeyExchange::Awaited awaited_;
  std::map<std::string, Group> groups_;
  value::Idset gone_;
};

}  // namespace nacre::plugins
