// SPDX-License-Identifier: Apache-2.0
//
// Barriers of some processes of a group (PMI 1.2) over nodes. Each shell that has some of these processes announces
// its part: that all of its own are in the barrier, and what this node has put. Announcements come to all shells in
// one order, so each of these shells finds the barrier full at the same place in that order. Other shells ignore
// the parts.
#pragma once

#include "plugin/host.hpp"
#include "pmi/key_exchange.hpp"

namespace nacre::plugins {

// The parts that shells announce, for all exchanges of a shell: parts for an exchange that does not exist yet wait
// for it.
class PmiGroupParts : Noncopyable {
 public:
  using Receive = std::function<void(std::uint32_t shell, const std::string& group, Result<pmi::Entries> keys)>;

  explicit PmiGroupParts(plugin::Host& host);

  // `receive` gets what all shells, this one included, announce for the exchange of that name, perhaps before this
  // returns.
  void listen(const std::string& exchange, Receive receive);
  void ignore(const std::string& exchange) { receivers_.erase(exchange); }
  // If there are too many keys, an error is announced in their place.
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

// The barriers of one exchange: a state machine that is given the parts.
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
  void when_awaited(pmi::KeyExchange::Awaited awaited);  // also for parts that have come before
  void part(std::uint32_t shell, const std::string& name, Result<pmi::Entries> keys);
  void gone(std::uint32_t shell);  // nobody waits for this shell any more
  void settle_all();

 private:
  struct Group {
    pmi::BarrierGroup group;
    value::Idset shells;  // that have some of its processes
    std::map<std::uint32_t, std::deque<Result<pmi::Entries>>> parts;
    pmi::KeyExchange::Done done;  // this shell has, for the barrier
    bool told = false;            // `awaited` was told that others wait
  };

  Group* find(const pmi::BarrierGroup& group);  // null: this shell has none of the processes
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
