// SPDX-License-Identifier: Apache-2.0
//
// A start of all tasks of the job together, for PMI: at the job's begin, and whenever all of them start again.
// What the processes are told of the job is taken at one place in the order of the announcements, so that it is the
// same on all shells; those that have joined while the job ran count from then on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plugin/host.hpp"
#include "plugins/pmi/exchange.hpp"
#include "plugins/pmi/options.hpp"
#include "pmi/server.hpp"
#include "value/taskmap.hpp"

namespace nacre::plugins {

struct PmiStart {
  std::uint64_t number = 1;  // larger with each
  value::Taskmap taskmap;
  bool takes_part = true;  // this shell does
  std::uint32_t last = 0;  // no shell behind this one does
  // How many tasks of this kind the nodes with tasks could hold, and those that were to have some at the job's
  // begin; none: no more than the job has, so that a program finds no number, as under Hydra.
  std::optional<std::uint32_t> universe_size = {};

  // In shell.init. A shell that joins a job that runs takes no part.
  static PmiStart of_job(const plugin::Host& host);
  // In job.tasks-restart, for all tasks.
  static PmiStart again(const plugin::Host& host);

  [[nodiscard]] std::vector<std::uint32_t> ranks_here(plugin::Host& host) const;  // in the order of the tasks
  // Of those tasks of this shell that are processes of PMI. Others have come to it since.
  [[nodiscard]] pmi::ClientGroup group(plugin::Host& host, const PmiOptions& options, pmi::Quota& quota) const;
  // What clients find in the space of keys.
  void set_attributes(pmi::Server& server, const PmiOptions& options) const;
  [[nodiscard]] PmiExchange::Barriers barriers() const;  // of the tasks; if this shell takes part
};

// The key by which a group's clients find which of them share a node, unless `pmi-simple.nomap` or its length
// forbids it.
void set_process_map(pmi::Server& server, const value::Taskmap& map, const PmiOptions& options);

// PMI-1 has a command for it, PMI-2 this attribute of the job.
void set_universe(pmi::Server& server, const std::optional<std::uint32_t>& size);

}  // namespace nacre::plugins
