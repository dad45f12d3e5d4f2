// SPDX-License-Identifier: Apache-2.0
#include "core/task_window.hpp"

namespace nacre::core {

void TaskWindow::limit(std::uint32_t slots) {
  slots_ = slots;
  free_ = value::Idset::range(0, slots - 1);
}

bool TaskWindow::is_to_start(const task::Task& task) const {
  return task.state() == task::State::init && !left_out_.contains(static_cast<Rank>(task.rank()));
}

void TaskWindow::skip(Tasks tasks) {
  while (first_ < tasks.size() && !is_to_start(*tasks[first_])) ++first_;
}

TaskWindow::Tasks TaskWindow::next(Tasks tasks, std::size_t most) {
  skip(tasks);
  std::size_t size = 0;
  if (!is_closed_) {
    for (Tasks rest = tasks.subspan(first_); size < most && size < rest.size(); ++size) {
      if (!is_to_start(*rest[size]) || !take_slot(*rest[size])) break;
    }
  }
  Tasks out = tasks.subspan(first_, size);
  first_ += size;
  return out;
}

bool TaskWindow::has_next(Tasks tasks) {
  skip(tasks);
  if (is_closed_ || first_ == tasks.size()) return false;
  return !slots_ || !free_.empty() || taken_.contains(static_cast<Rank>(tasks[first_]->rank()));
}

void TaskWindow::give_back(Rank rank) {
  if (auto slot = taken_.extract(rank)) free_.insert(slot.mapped());
}

bool TaskWindow::take_slot(task::Task& task) {
  if (!slots_) return true;
  const auto rank = static_cast<Rank>(task.rank());
  auto own = taken_.find(rank);
  if (own == taken_.end()) {
    if (free_.empty()) return false;
    own = taken_.emplace(rank, *free_.first()).first;
    free_.remove(own->second);
  }
  task.set_slot(own->second);
  return true;
}

}  // namespace nacre::core
