// SPDX-License-Identifier: Apache-2.0
//
// Which tasks of a shell start next. Without the option at-most: all that were not started. With at-most=N the
// shell has N slots, and a task needs one from its start until it has ended for good, so that one that starts again
// has its own. The tasks start in the order of the list; no call takes longer where there are more of them.
#pragma once

#include "task/task.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class TaskWindow {
 public:
  using Tasks = std::span<const std::unique_ptr<task::Task>>;
  using Rank = value::Idset::Id;

  void limit(std::uint32_t slots);  // at least 1
  [[nodiscard]] bool is_limited() const { return slots_.has_value(); }

  // The tasks that start now, which have their slots: neighbours in `tasks`, at most `most`. None if there are no
  // more, or no slots for them.
  Tasks next(Tasks tasks, std::size_t most);
  // Whether next() would return some.
  [[nodiscard]] bool has_next(Tasks tasks);
  // How many may start before the loop has to have a turn.
  [[nodiscard]] std::size_t most_at_once() const { return slots_.value_or(SIZE_MAX); }

  // Another task is at this place now.
  void look_again_from(std::size_t place) { first_ = std::min(first_, place); }
  // The task has ended for good, or is on another shell: its slot is free.
  void give_back(Rank rank);
  void leave_out(Rank rank) { left_out_.insert(rank); }  // it never starts
  void close() { is_closed_ = true; }                    // none starts any more
  // It was not started, and has no slot.
  [[nodiscard]] bool waits(const task::Task& task) const {
    return is_to_start(task) && !taken_.contains(static_cast<Rank>(task.rank()));
  }

 private:
  [[nodiscard]] bool is_to_start(const task::Task& task) const;
  void skip(Tasks tasks);
  bool take_slot(task::Task& task);

  std::optional<std::uint32_t> slots_;
  value::Idset free_;
  std::map<Rank, std::uint32_t> taken_;
  value::Idset left_out_;
  std::size_t first_ = 0;  // no task before this place waits to be started
  bool is_closed_ = false;
};

}  // namespace nacre::core
