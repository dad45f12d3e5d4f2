// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/moved_tasks.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace nacre::plugins {

Result<UniqueFd> PmiMovedTasks::open(std::uint32_t id) {
  links_.erase(id);
  return links_[id].open();
}

Result<void> PmiMovedTasks::watch(const task::Task& task) {
  return links_.at(task.local_id()).watch(host_.loop(), [this, rank = task.rank()](std::string_view bytes) {
    received(rank, bytes);
  });
}

void PmiMovedTasks::forget() {
  links_.clear();
  has_called_ = false;
}

void PmiMovedTasks::received(std::uint32_t rank, std::string_view bytes) {
  if (bytes.empty() || std::exchange(has_called_, true)) return;
  if (options_.starts_again) {
    log(host_, plugin_, Level::warn,
        "rank {}{} calls PMI, and has been started again on another shell: it is killed, so that all tasks start "
        "again together",
        rank, host_.job().node().on());
    return kill(rank);
  }
  host_.raise({"exec", 0,
               fmt::format("rank {}{} calls PMI, and has been started again on another shell: the other tasks "
                           "cannot know it again by PMI (-o pmi=off, if the program does not need it)",
                           rank, host_.job().node().on()),
               value::WaitStatus::exited(1)});
}

void PmiMovedTasks::kill(std::uint32_t rank) {
  for (const auto& task : host_.tasks()) {
    if (task->rank() == rank) task->kill(SIGKILL);
  }
}

}  // namespace nacre::plugins
