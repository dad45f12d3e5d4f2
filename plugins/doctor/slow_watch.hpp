// SPDX-License-Identifier: Apache-2.0
//
// slow-watch=DURATION[,output[:WORD]][,factor=F]: each shell measures its tasks window by window, and sends what it
// has measured to the leader, which says when a host or a task is slower than the others for long (SlowFinder of
// shell/doctor), and when no more. Nothing else follows from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "bulk/record_queue.hpp"
#include "doctor/slow_finder.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"
#include "plugins/doctor/process_look.hpp"

namespace nacre::plugins {

// What this shell's tasks do in windows.
class PaceMeter {
 public:
  static constexpr std::size_t kMostThreads = 64;  // of a process
  static constexpr double kMostCost = 0.005;       // of a cpu: then fewer threads are looked at

  // `word`: of what the tasks count in their output; "": they do not.
  PaceMeter(plugin::Host& host, std::string word) : host_(host), word_(std::move(word)) {}

  // Since the last call; of the tasks that ran at both.
  [[nodiscard]] doctor::PaceWindow measure();
  [[nodiscard]] std::size_t most_threads() const { return most_threads_; }

 private:
  struct Mark {
    pid_t pid = 0;
    std::optional<std::uint64_t> bytes;
    std::map<pid_t, CpuLook> processes;
    // What it counts. After a start nothing of it is known before it has grown.
    std::optional<plugin::TaskOutput::Number> number;
    bool has_grown = false;
    std::optional<double> rate;
  };

  [[nodiscard]] Mark mark_of(const task::Task& task) const;
  [[nodiscard]] doctor::TaskPace pace_of(const Mark& before, Mark& now, double seconds) const;
  void count(const Mark& before, Mark& now) const;
  void add_gpus(doctor::PaceWindow& window);

  plugin::Host& host_;
  std::string word_;
  std::map<std::uint32_t, Mark> marks_;  // by rank
  event::Seconds measured_{};
  std::size_t most_threads_ = kMostThreads;
};

class SlowWatch {
 public:
  SlowWatch(plugin::Host& host, job::SlowWatchOption option)
      : host_(host), option_(std::move(option)), meter_(host, option_.word), finder_(option_.factor) {}

  void serve();          // every shell's, in shell.init
  Result<void> start();  // the tasks run
  void stop();           // those of this shell have ended
  void all_ended();      // the leader's: those of all shells have
  void gone(std::uint32_t shell);

 private:
  void look();
  void take(std::uint32_t shell, std::string_view bytes);
  void keep(std::uint32_t shell, doctor::PaceWindow window);
  void judge();
  void tell(const doctor::SlowFinding& finding);

  plugin::Host& host_;
  job::SlowWatchOption option_;
  PaceMeter meter_;
  bulk::RecordQueue records_{bulk::up::kPace};
  std::optional<event::Timer> timer_;
  bool has_stopped_ = false;
  // The leader's.
  doctor::SlowFinder finder_;
  std::map<std::uint32_t, doctor::SlowFinder::Host> come_;  // windows that are not judged yet, by shell
  std::optional<event::Timer> judging_;
};

}  // namespace nacre::plugins
