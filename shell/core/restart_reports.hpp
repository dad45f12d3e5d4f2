// SPDX-License-Identifier: Apache-2.0
//
// What users and plugins get to know of restarts: the leader raises an exception of severity 2 for each, whose
// message is a line in its log; all shells call job.tasks-restart.
#pragma once

#include <string_view>

#include "core/shell_group.hpp"
#include "elastic/restart_message.hpp"
#include "exits/record.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class RestartReports {
 public:
  // Both have to outlive it.
  RestartReports(plugin::Host& host, ShellGroup& shells) : host_(host), shells_(shells) {}

  void set_most(std::uint64_t restarts) { most_ = restarts; }  // so many there may be (option `restart`)

  // What has been decided about tasks of this shell.
  void decided(group::Rank shell, const elastic::RestartDecision& decision) const;
  // They have ended like this, and do not start again.
  void refused(const value::Idset& ranks, group::Rank shell, const exits::Record& record,
               std::string_view why) const;

 private:
  void notify(group::Rank shell, const elastic::RestartDecision& decision) const;
  void raise(const std::string& message) const;
  void ordered(group::Rank shell, const elastic::RestartDecision& decision) const;

  plugin::Host& host_;
  ShellGroup& shells_;
  std::uint64_t most_ = 0;
};

}  // namespace nacre::core
