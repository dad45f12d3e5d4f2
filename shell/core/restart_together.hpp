// SPDX-License-Identifier: Apache-2.0
//
// A restart of all tasks of the job, or of this shell, that is under way: it ends the tasks of this shell, waits
// until those of the other shells have ended, then for the delay. With where=spare it may be decided after that
// where they start.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/shell_tasks.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugin/registration.hpp"

namespace nacre::core {

class RestartTogether {
 public:
  struct Plan {
    std::uint64_t restarts;  // of the job, with this one
    double delay;            // seconds
    bool is_node = false;    // of this shell only: no others are waited for
    std::uint32_t last = 0;  // else: no shell behind this one takes part
    bool ordered = false;    // by nacre restart: the tasks start where they were
  };

  // Host and tasks have to outlive it. `kill` sends to the tasks of this shell, as the shell itself; `over` is
  // called once the delay is over.
  RestartTogether(plugin::Host& host, const ShellTasks& tasks, const Plan& plan,
                  std::function<void(int signum)> kill, std::function<void()> over);

  [[nodiscard]] const Plan& plan() const { return plan_; }
  void end_tasks(event::Seconds grace);  // unless the job ends; `grace`: between SIGTERM and SIGKILL
  [[nodiscard]] bool ends_tasks() const { return timer_.has_value(); }  // it has begun to
  void task_ended();
  // Another restart of all has come before the tasks have started: nobody waits for their ends any more.
  void leave();

  // ---- once the delay is over
  void set_due() { state_ = State::due; }
  [[nodiscard]] bool is_due() const { return state_ == State::due; }
  void set_moving() { state_ = State::moving; }  // where they start is still to be decided
  [[nodiscard]] bool is_moving() const { return state_ == State::moving || state_ == State::asked; }
  // True: it has to be asked now.
  bool begin_asking();

 private:
  enum class State : std::uint8_t { waiting, moving, asked, due };

  void wait_for_others();
  void wait_for_delay();

  plugin::Host& host_;
  const ShellTasks& tasks_;
  Plan plan_;
  std::function<void(int signum)> kill_;
  std::function<void()> over_;
  State state_ = State::waiting;
  bool waits_ = false;                 // for the other shells, then for the delay
  std::optional<event::Timer> timer_;  // SIGKILL; then the delay
  plugin::Registration others_ended_;
};

}  // namespace nacre::core
