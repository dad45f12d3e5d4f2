// SPDX-License-Identifier: Apache-2.0
//
// What options set for tasks by one step in the child, each described once: the tasks have it, so do the processes
// that tasks spawn, `--explain` shows it, and the error of a step that fails names it. A setting is a struct with
// the members of OomScore, and is named in `Settings`. t/unit/plugins/settings.cpp does not compile without a
// sample of each.
//
// set() runs in the child, between vfork and exec, so it only makes system calls. It returns 0 or an errno.
#pragma once

#include <sched.h>

#include "base/result.hpp"

namespace nacre::task {

struct OomScore {
  using Value = std::string;  // text for /proc/self/oom_score_adj
  // In what the shells send each other about spawned processes (plugins/pmi/spawn_order.hpp).
  static constexpr std::string_view kName = "oom";
  static int set(const Value& score);
  static std::string attempt(const Value& score) { return "set the OOM score to " + score; }  // after "cannot "
  static std::string plan_line(const Value& score) { return "oom     " + score; }             // of --explain
};

struct Scheduler {
  using Value = int;  // SCHED_OTHER, SCHED_BATCH or SCHED_IDLE, see sched(7)
  static constexpr std::string_view kName = "scheduler";
  static int set(const Value& policy) {
    const sched_param none{};
    return ::sched_setscheduler(0, policy, &none) == 0 ? 0 : errno;
  }
  static std::string attempt(const Value&) { return "set the scheduling policy"; }
  static std::string plan_line(const Value& policy) {
    return policy == SCHED_BATCH ? "sched   batch" : policy == SCHED_IDLE ? "sched   idle" : "sched   other";
  }
};

// A value of each of the settings S, or none: as inherited.
template <typename... S>
class SettingsOf {
 public:
  // visit(S{}) for each, in the order in which the child makes them.
  static void for_each(auto&& visit) { (visit(S{}), ...); }

  template <typename One>
  [[nodiscard]] auto& of(One = {}) {
    return std::get<Held<One>>(held_).value;
  }
  template <typename One>
  [[nodiscard]] const auto& of(One = {}) const {
    return std::get<Held<One>>(held_).value;
  }

 private:
  template <typename One>
  struct Held {
    std::optional<typename One::Value> value;
  };
  std::tuple<Held<S>...> held_;
};

using Settings = SettingsOf<OomScore, Scheduler>;

}  // namespace nacre::task
