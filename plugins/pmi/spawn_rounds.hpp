// SPDX-License-Identifier: Apache-2.0
//
// Spawns in a job of several shells. The shell of the process that requests one announces it. All shells perform
// them one after the other, in the order of the announcements: each says how many processes it has room for, all
// compute alike where they run, those that have some start them, and say whether they could. So all know the
// same of each spawn, whoever is lost meanwhile, and those that are requested at the same time see each other's.
//
// Each costs a message to every shell, and two collectives of all.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/pump.hpp"
#include "plugin/host.hpp"
#include "plugins/pmi/spawn_order.hpp"
#include "plugins/pmi/start.hpp"

namespace nacre::plugins {

struct SpawnRound {
  SpawnOrder order;
  std::uint64_t number = 0;                    // from 1, of this start of the tasks
  std::uint32_t last = 0;                      // the shells up to this one perform it
  std::vector<std::uint32_t> places;           // by rank: its shell; empty if no place was found
  std::optional<std::uint32_t> universe = {};  // MPI_UNIVERSE_SIZE of its processes, see universe_of_spawn()

  [[nodiscard]] std::string name() const;  // of its collectives, before a dot
  [[nodiscard]] bool has(std::uint32_t shell) const;
};

class SpawnRounds {
 public:
  struct Callbacks {
    std::function<std::optional<std::uint32_t>()> on_room;    // of this shell, as SpawnRoom::free
    std::function<Result<void>(const SpawnRound&)> on_start;  // the processes of this shell, if it has some
    // Called for each round for which on_room was. An error: there are to be no such processes. It is the same on
    // all shells.
    std::function<void(const SpawnRound&, const Result<void>&)> on_settled;
  };

  SpawnRounds(plugin::Host& host, Callbacks callbacks) : host_(host), callbacks_(std::move(callbacks)) {}

  // At one place in the order of the announcements: requests of an earlier start are not performed any more.
  // `takes_part`: this shell does.
  void begin(const PmiStart& start, bool takes_part);
  Result<void> announce(SpawnOrder order);
  void announced(std::string_view bytes);  // with kTopic

  static constexpr std::string_view kTopic = "pmi.spawn";

 private:
  enum class Step { begin, rooms, start, settle, over };
  struct Open {
    SpawnRound round;
    Step next = Step::begin;
    bool waits = false;  // for the answer to the last collective
    Result<plugin::Gathered> gathered = plugin::Gathered();
    Result<void> outcome;
    plugin::Registration rooms, starts;
  };

  bool step();
  void perform(Open& open);
  plugin::Registration gather(Open& open, std::string_view what, std::string mine);
  void place(Open& open);
  [[nodiscard]] Result<void> outcome_of(const Open& open) const;

  plugin::Host& host_;
  Callbacks callbacks_;
  std::uint64_t start_ = 0;
  std::uint32_t last_ = 0;
  bool takes_part_ = false;
  std::uint64_t count_ = 0;
  std::deque<std::unique_ptr<Open>> open_;
  Pump pump_;
};

}  // namespace nacre::plugins
