// SPDX-License-Identifier: Apache-2.0
//
// How a shell leaves its job: with the job's exit code, and not before all shells have come to the same end.
#pragma once

#include <optional>

#include "base/log.hpp"
#include "base/result.hpp"
#include "join/shell_process.hpp"

namespace nacre::join {

// What all shells enter: once their plugins are ready, once their tasks have been started, once these have ended, and once nothing
// more can fail.
inline constexpr const char* kInitBarrier = "init";
inline constexpr const char* kStartBarrier = "start";
inline constexpr const char* kExitBarrier = "exit";
inline constexpr const char* kEndBarrier = "end";

// Logs the failure that has ended a job of several shells. The leader does so for all of them, with the rank of the shell that failed in
// front; the others only at debug level.
void log_cause(Log& log, const group::Exception& cause, bool leads);

// The last that a shell does with the others. The leader's `code` is the job's exit code. Returns that, or none if it was not
// learnt: this shell was cut off from the job.
std::optional<int> leave(ShellProcess& process, int code);

// For a shell that has not become a Shell: sends the others why, unless the job is being ended already, and leaves with them. The
// exit code.
int give_up(ShellProcess& process, group::Rank rank, const Error& why, Log& log);

}  // namespace nacre::join
