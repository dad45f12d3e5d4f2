// SPDX-License-Identifier: Apache-2.0
//
// The spawns of the job, as one shell knows them: which of their processes it has, on which shells the others are,
// and on which of these they have ended, or are lost.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/host.hpp"
#include "plugins/pmi/exchange.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/options.hpp"
#include "plugins/pmi/spawn_rounds.hpp"
#include "plugins/pmi/spawned_part.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class SpawnTable {
 public:
  struct Entry {
    std::uint64_t start = 1;  // of the tasks, and the spawn's number in it
    std::uint64_t number = 0;
    std::vector<std::uint32_t> places;      // by rank: its shell
    std::unique_ptr<SpawnedPart> here;      // its processes on this shell
    std::unique_ptr<PmiExchange> bystands;  // it has none: for the barriers of the others
    value::Idset ended;                     // shells whose processes of it have all ended, as far as is known
    bool is_held = false;
    bool is_settled = false;  // it is known whether all have started
  };
  using Entries = std::list<Entry>;
  using Place = Entries::iterator;

  // All of them have to outlive this object. `before_drop`: this group of processes is about to go.
  SpawnTable(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options,
             std::function<void(const PmiGroup&)> before_drop)
      : host_(host), plugin_(plugin), options_(options), before_drop_(std::move(before_drop)) {}

  Place add(const SpawnRound& round);
  Entry* find(std::uint64_t start, std::uint64_t number);  // nullptr: it is not there
  void drop_those_over();
  Place begin() { return entries_.begin(); }
  Place end() { return entries_.end(); }

  // It is known whether all have started. If not, those that run here are ended.
  void settled(Entry& entry, bool all_started);
  // A process of this shell is lost.
  void announce_lost(const Entry& entry, std::uint32_t rank);
  // Its processes on this shell have ended. `several`: other shells are to know that, if it matters. It may be
  // dropped.
  void ended_here(Place place, bool several);
  // Announcements of other shells about spawns; others are ignored.
  void announced(std::string_view topic, std::string_view bytes);

  void signal(int signum);
  void shell_leaves();
  void shell_gone(std::uint32_t shell, bool is_lost);

  [[nodiscard]] std::uint32_t running() const;  // processes on this shell
  // `take` is called for each that runs on this shell; `spawn`: its number in this start of all tasks.
  using TakeProcess = std::function<void(std::uint64_t spawn, std::uint32_t task, const SpawnedProcess& process)>;
  void each_process(const TakeProcess& take) const;
  [[nodiscard]] bool is_connected() const;  // a process of this shell has called init, and not finalize
  // Something has been spawned, on any shell, or is being spawned. What could not be does not count.
  [[nodiscard]] bool has_begun() const;

 private:
  Place drop(Place place);
  void announce(std::string_view topic, const Entry& entry, std::uint32_t what);
  [[nodiscard]] bool is_missed(std::uint32_t shell) const;
  void lose(Entry& entry, std::uint32_t shell, bool is_lost);

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  std::function<void(const PmiGroup&)> before_drop_;
  Entries entries_;
  bool has_settled_ = false;  // all processes of a spawn have started
  value::Idset gone_, lost_;  // other shells; lost_: those that have not left by themselves
};

}  // namespace nacre::plugins
