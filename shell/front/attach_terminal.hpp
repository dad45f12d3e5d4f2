// SPDX-License-Identifier: Apache-2.0
//
// `nacre attach` to a task's terminal: this one is joined to it until the task ends or the user leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "control/client.hpp"

namespace nacre::front {

// The task whose terminal is meant, which is the first that has one. ENOTTY: none has.
Result<std::uint32_t> first_terminal(control::Client& client);
// The same, if exactly one task has a terminal.
Result<std::optional<std::uint32_t>> only_terminal(control::Client& client);

struct TerminalView {
  enum class How { ended, left, link_lost };
  How how = How::ended;
  std::string task_end;      // how the task has ended, for the user
  std::uint64_t missed = 0;  // bytes of its output, as they were taken too slowly
};
// An error: the leader refuses, or this terminal cannot be used.
Result<TerminalView> attach_terminal(control::Client& client, std::uint32_t rank);

}  // namespace nacre::front
