// SPDX-License-Identifier: Apache-2.0
//
// What the leader asks the shells of all nodes by an announcement, and they answer by records that come up to it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "bulk/record_queue.hpp"
#include "plugin/host.hpp"

namespace nacre::plugin {

// In shell.init of every shell: serves the channel of `records`, with `take` as RecordQueue::serve() has it. Any
// other shell than the leader gets what is announced as `topic` in `asked`, until the registration ends. Nothing is
// served if this shell is the only one. `records` has to outlive the job.
[[nodiscard]] Registration serve_questions(Host& host, bulk::RecordQueue& records, std::string topic,
                                           std::function<void(bulk::Id origin, std::string_view bytes)> take,
                                           std::function<void(std::string_view question)> asked);

}  // namespace nacre::plugin
