// SPDX-License-Identifier: Apache-2.0
//
// hang-watch=DURATION[,kill]: when no task of the job has written, read, been woken by others, ended or called PMI
// for that time, the job is examined, and what was found is printed and kept in the report; with `kill` the job is
// ended then. Without, it is examined again after twice and four times that time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "job/options.hpp"
#include "plugin/host.hpp"
#include "plugins/doctor/examinations.hpp"
#include "plugins/doctor/process_look.hpp"
#include "value/duration.hpp"

namespace nacre::plugins {

struct HangWatchOption {
  static constexpr double kLeast = 1;  // seconds

  value::Duration time;
  bool kills = false;

  // None: it is not given, or off.
  static Result<std::optional<HangWatchOption>> read(const job::Options& options);
};

class HangWatch {
 public:
  static constexpr int kMostReports = 3;

  HangWatch(plugin::Host& host, Examinations& examinations, HangWatchOption option)
      : host_(host), examinations_(examinations), option_(std::move(option)) {}

  Result<void> start();  // the tasks run
  void stop();           // those of this shell have ended: they count as still
  void all_ended();      // the leader's: those of all shells have

  // Seconds since a task of this shell has last done something that can be seen.
  [[nodiscard]] double silent();
  void traced() { looks_.clear(); }  // what that has woken does not count

 private:
  // Of a task: what changes when it does something.
  struct Mark {
    std::uint64_t written = 0;
    std::set<pid_t> processes;  // it and all below it
    task::State state{};
    bool operator==(const Mark&) const = default;
  };

  [[nodiscard]] bool moved(const Mark& mark, double interval);
  void look();
  void ask();
  void examine();
  void report(const Examined& examined);

  plugin::Host& host_;
  Examinations& examinations_;
  HangWatchOption option_;
  std::map<std::uint32_t, Mark> marks_;  // by rank
  std::map<pid_t, ProcessLook> looks_;   // at their processes
  event::Seconds active_{}, looked_{};   // clock_now()
  std::optional<event::Timer> timer_;
  bool is_over_ = false, asks_ = false;
  int reports_ = 0;
};

}  // namespace nacre::plugins
