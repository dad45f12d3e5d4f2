// SPDX-License-Identifier: Apache-2.0
//
// The manager of an allocation, as what takes nodes back: which it is, and the command by which it does. What the
// commands do is decided here; who runs them is another matter.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "value/hostlist.hpp"

namespace nacre::plugins {

struct BatchSystem {
  enum class Kind : std::uint8_t { none, pbs, lsf, other, command };
  using Variable = std::function<std::optional<std::string>(const char* name)>;

  Kind kind = Kind::none;
  std::string name;  // for messages: Slurm, PBS, ...; of a command, the command
  std::string job;   // its id there

  // By the environment of the leader.
  static BatchSystem of_environment(const Variable& variable);
  // A command of /bin/sh.
  static BatchSystem of_command(std::string text);

  // Why nothing can be given back, whatever the hosts are: one line. None: it can.
  [[nodiscard]] std::optional<std::string> obstacle() const;
  // What gives these hosts back; there is no obstacle.
  [[nodiscard]] std::vector<std::string> release(const value::Hostlist& hosts) const;
};

}  // namespace nacre::plugins
