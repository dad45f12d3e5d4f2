// SPDX-License-Identifier: Apache-2.0
//
// Runs programs beside the tasks, several at a time. Each has /dev/null as stdin, the shell's own stdout (unless
// its lines are wanted) and stderr, and a process group of its own, which is killed if it takes too long.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/host.hpp"
#include "task/subprocess.hpp"
#include "value/duration.hpp"

namespace nacre::plugins {

class HookRunner {
 public:
  static constexpr std::size_t kMaxAtOnce = 64;
  // How long stdout may stay open after the end of a program whose lines are wanted, as a process that it has left
  // may hold it.
  static constexpr event::Seconds kLinger{1.0};

  struct Run {
    std::string name;  // for errors
    task::Command command;
    value::Duration timeout = value::Duration::infinite();
    std::function<Result<void>(std::string_view line)> on_line{};  // a line of stdout; an error makes the run fail
    std::function<void(Result<void>)> on_end;  // called once; an error, with the name, unless it exited with 0
  };

  explicit HookRunner(plugin::Host& host);
  ~HookRunner();  // leaves running programs alone

  void add(Run run);  // on_end may be called at once, if the program cannot be started
  void drop_waiting() { waiting_.clear(); }
  // Sends the signal to all that run, and to what they have started. What has not ended after the grace is killed.
  void end_all(int signum, event::Seconds grace);

 private:
  struct Running;
  using Place = std::list<Running>::iterator;

  void start_next();
  Result<void> start(Place place);
  static void give_up(Running& running, const std::string& why);
  void read(Running& running);
  void end(Place place);

  plugin::Host& host_;
  std::deque<Run> waiting_;
  std::list<Running> running_;
};

}  // namespace nacre::plugins
