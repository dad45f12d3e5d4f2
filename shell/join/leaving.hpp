// SPDX-License-Identifier: Apache-2.0
//
// How a shell leaves its job: with the job's exit code, and only when all shells have come to the same end.
#pragma once

#include "base/log.hpp"
#include "join/shell_process.hpp"

namespace nacre::join {

// The barriers of all shells: when their plugins are ready, when their tasks can be started (only where something
// may fail on one node until then), when these have been started, when they have ended, and when nothing more can
// fail.
inline constexpr const char* kInitBarrier = "init";
inline constexpr const char* kReadyBarrier = "ready";
inline constexpr const char* kStartBarrier = "start";
inline constexpr const char* kExitBarrier = "exit";
inline constexpr const char* kEndBarrier = "end";

// Logs the failure that has ended a job of several shells. The leader does so for all, after the rank of the shell
// that failed; the others log it at debug level only.
void log_cause(Log& log, const group::JobException& cause, bool leads);

// The last thing that a shell does with the others. The leader's `code` is the job's exit code. Returns the job's
// exit code, or none if this shell was cut off before it received that.
std::optional<int> leave(ShellProcess& process, int code);

// For a process that has not become a Shell: sends the others the error, unless the job is being ended already, and
// leaves with them. Returns the exit code.
int give_up(ShellProcess& process, group::Rank rank, const Error& why, Log& log);

}  // namespace nacre::join
