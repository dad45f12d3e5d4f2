// SPDX-License-Identifier: Apache-2.0
//
// Ending what runs: TERM, a grace, KILL.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/result.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"

namespace nacre::core {

inline constexpr event::Seconds kKillTime{2.0};  // how long SIGKILL may take before a survivor is named

// Ends the tasks: `kill_tasks` with SIGTERM at once, with SIGKILL after the grace.
class Shutdown {
 public:
  static Result<Shutdown> create(event::Loop& loop, event::Seconds grace,
                                 std::function<void(int signum)> kill_tasks);
  bool begin();  // once; later calls do nothing, and return false

 private:
  Shutdown(event::Timer timer, event::Seconds grace, std::function<void(int)> kill_tasks)
      : timer_(std::move(timer)), grace_(grace), kill_tasks_(std::move(kill_tasks)) {}

  event::Timer timer_;
  event::Seconds grace_;
  std::function<void(int)> kill_tasks_;
  bool begun_ = false;
};

// The processes that outlive the tasks that started them. As a subreaper the shell becomes their parent, so none
// escapes by forking twice.
class Stragglers {
 public:
  // Children that this process already had are none of the job's.
  Stragglers();

  // A shell of the job that runs on this host becomes this one's child, too, once the shell that has started it is gone. It is no
  // straggler, nor is what is below it. `mark`: NAME=VALUE that all in the environment have that this shell has started.
  void spare_shells(std::string mark) { mark_ = std::move(mark); }

  enum class Of { tasks, all };  // `all`: those too that are watched, which plugins have started

  // Runs `loop` until they are gone: TERM, `grace`, KILL. Names in a warning each that survives. Costs one system
  // call where there are none.
  Result<void> end(Of whose, event::Loop& loop, event::Children& children, Log& log, event::Seconds grace) const;

 private:
  [[nodiscard]] std::vector<pid_t> left(Of whose, const event::Children& children) const;
  [[nodiscard]] bool all_gone(const std::vector<pid_t>& pids, Of whose, const event::Children& children) const;
  [[nodiscard]] bool is_other_shell(pid_t pid) const;

  std::set<pid_t> before_;
  std::string mark_;
};

}  // namespace nacre::core
