// SPDX-License-Identifier: Apache-2.0
//
// What the shell of a task knows of why and when it has failed, for exits::first_of().
#pragma once

#include <string_view>

#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "plugin/host.hpp"
#include "task/task.hpp"

namespace nacre::plugin {

// Of a task of this shell that has ended as `record`; times are those of clock_now(). `error`: what it has written
// to its error file. What waits in its pipes is read first.
[[nodiscard]] exits::FailureFacts failure_of(Host& host, const task::Task& task, const exits::Record& record,
                                             std::string_view error = {});

}  // namespace nacre::plugin
