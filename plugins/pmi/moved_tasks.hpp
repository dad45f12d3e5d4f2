// SPDX-License-Identifier: Apache-2.0
//
// Tasks of this shell that have come from another one. The others do not know such a task as the process that it
// was: until all tasks start again it is no process of the group, and has a connection that it must not use. If it
// does, what can only be right for all tasks follows: it is killed where all start again then, else the job ends.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "plugin/host.hpp"
#include "plugins/pmi/link.hpp"
#include "plugins/pmi/options.hpp"

namespace nacre::plugins {

class PmiMovedTasks {
 public:
  // All have to outlive it.
  PmiMovedTasks(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options)
      : host_(host), plugin_(plugin), options_(options) {}

  // The task's end of a new connection; `id`: its local id. What it had before is dropped.
  Result<UniqueFd> open(std::uint32_t id);
  Result<void> watch(const task::Task& task);  // it runs
  void drain(std::uint32_t id) { links_[id].drain(); }

  [[nodiscard]] bool one_has_called() const { return has_called_; }
  void forget();  // all tasks start again

 private:
  void received(std::uint32_t rank, std::string_view bytes);
  void kill(std::uint32_t rank);

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  std::map<std::uint32_t, PmiLink> links_;  // by local id
  bool has_called_ = false;
};

}  // namespace nacre::plugins
