// SPDX-License-Identifier: Apache-2.0
//
// Ends processes: SIGTERM, a grace, SIGKILL.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

// Ends the tasks: calls `kill_tasks` with SIGTERM at once, and with SIGKILL after the grace.
class Shutdown {
 public:
  static Result<Shutdown> create(event::Loop& loop, event::Seconds grace,
                                 std::function<void(int signum)> kill_tasks);
  // Only once; later calls do nothing, and return false. `signum` comes first; `grace`: another one than usual.
  bool begin(int signum, std::optional<event::Seconds> grace);

 private:
  Shutdown(event::Timer timer, event::Seconds grace, std::function<void(int)> kill_tasks)
      : timer_(std::move(timer)), grace_(grace), kill_tasks_(std::move(kill_tasks)) {}

  event::Timer timer_;
  event::Seconds grace_;
  std::function<void(int)> kill_tasks_;
  bool begun_ = false;
};

// The processes that outlive the tasks that started them. The shell is a subreaper and becomes their parent, so
// none escapes by forking twice.
class Stragglers {
 public:
  // Children that this process already has are none of the job's.
  Stragglers();

  // Another shell of the job on this host becomes this one's child too when the shell that started it goes. It is
  // no straggler, and neither are its descendants. `mark`: NAME=VALUE that is in the environment of all processes
  // that this shell has started.
  void spare_shells(std::string mark) { mark_ = std::move(mark); }

  void spare(pid_t child) { before_.insert(child); }  // this process is none of the job's either

  enum class Of { tasks, all };  // `all`: also those that are watched, which plugins have started

  // Runs `loop` until they are gone: SIGTERM, `grace`, SIGKILL. Warns of each one that survives, reports them to
  // plugins (Unkillable::announce), and does not look for them again. Costs one system call if there are none.
  // `found`, if it is set, is called first, with all that are there.
  Result<void> end(Of whose, plugin::Host& host, event::Seconds grace,
                   const std::function<void(const std::vector<pid_t>&)>& found = {});

  // {"pid", "name", "rank"} of each, the rank if its environment has one. Those in the process groups `but` are
  // left out.
  static Json facts_of(const std::vector<pid_t>& pids, const std::set<pid_t>& but);

 private:
  [[nodiscard]] std::vector<pid_t> left(Of whose, const event::Children& children) const;
  [[nodiscard]] bool all_gone(const std::vector<pid_t>& pids, Of whose, const event::Children& children) const;
  [[nodiscard]] bool is_other_shell(pid_t pid) const;

  std::set<pid_t> before_;
  std::string mark_;
};

}  // namespace nacre::core
