// SPDX-License-Identifier: Apache-2.0
//
// What the leader asks the shells of all nodes by an announcement, and they answer by records that come up to it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "bulk/record_queue.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "plugin/host.hpp"
#include "task/task.hpp"

namespace nacre::plugin {

// What the shell of a task knows of why and when it has failed, for exits::first_of().

// Of a task of this shell that has ended as `record`; times are those of clock_now(). `error`: what it has written
// to its error file. What waits in its pipes is read first.
[[nodiscard]] exits::FailureFacts failure_of(Host& host, const task::Task& task, const exits::Record& record,
                                             std::string_view error = {});

// The ranks of this shell's tasks that are connected to PMI, by whatever plugin (topic pmi.connected). What one
// answers wrongly is named in a warning of `component`.
[[nodiscard]] value::Idset pmi_connected(Host& host, std::string_view component);
// Whether processes of this shell are that tasks have spawned (topic pmi.spawned).
[[nodiscard]] bool spawned_connected(Host& host);

// In shell.init of every shell: serves the channel of `records`, with `take` as RecordQueue::serve() has it. Any
// other shell than the leader gets what is announced as `topic` in `asked`, until the registration ends. Nothing is
// served if this shell is the only one. `records` has to outlive the job.
[[nodiscard]] Registration serve_questions(Host& host, bulk::RecordQueue& records, std::string topic,
                                           std::function<void(bulk::Id origin, std::string_view bytes)> take,
                                           std::function<void(std::string_view question)> asked);

}  // namespace nacre::plugin
