// SPDX-License-Identifier: Apache-2.0
//
// A check of this host, in a process of its own: where a file system or a driver hangs, it does, and the shell goes
// on without it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugins {

class CheckProcess {
 public:
  static constexpr std::size_t kMostOutput = std::size_t{1} << 16;  // bytes; of more the last ones are kept

  struct Outcome {
    bool is_late = false;  // it has been killed; else it has ended
    value::WaitStatus status = {};
    std::string output = {};  // and standard error
    event::Seconds took{};

    // "took longer than 5s", or the last line of its output, or how it has ended.
    [[nodiscard]] std::string why(event::Seconds most) const;
    [[nodiscard]] bool is_good() const { return !is_late && status.success(); }
  };
  using WhenDone = std::function<void(const Outcome& outcome)>;

  // It has to outlive it.
  explicit CheckProcess(plugin::Host& host) : host_(host) {}
  ~CheckProcess();
  CheckProcess(const CheckProcess&) = delete;
  CheckProcess& operator=(const CheckProcess&) = delete;

  // `act` runs in a forked child, and returns its exit code, unless it executes another program. `done` is called
  // once, from the loop; it may not destroy this object. An error: it has not been started.
  Result<void> start(const std::function<int()>& act, event::Seconds most, WhenDone done);

 private:
  void read();
  void kill();
  void end(bool is_late, const value::WaitStatus& status);

  plugin::Host& host_;
  pid_t pid_ = -1;  // of one that runs
  UniqueFd output_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> limit_;
  event::Seconds began_{};
  Outcome outcome_;
  WhenDone done_;
};

// For CheckProcess::start(): executes a command of /bin/sh, in this directory unless that is "". `environment`:
// NAME=value each.
[[nodiscard]] std::function<int()> shell_command(std::string command, std::string directory,
                                                 std::vector<std::string> environment);

}  // namespace nacre::plugins
