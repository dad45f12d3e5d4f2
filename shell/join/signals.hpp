// SPDX-License-Identifier: Apache-2.0
//
// The signals that end a shell or its job (SIGINT, SIGTERM, SIGHUP, SIGQUIT), once the process has a loop: they
// come from the system, or from the job's launcher. Before, each ends the process. A SIGHUP that was ignored stays
// so, as under nohup(1) and in mpiexec.hydra; SIGINT and SIGQUIT are always handled, as by mpiexec.hydra and srun.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "event/loop.hpp"

namespace nacre::join {

class Signals {
 public:
  enum class From { process, launcher };
  using OnSignal = std::function<void(int signum, From from)>;

  static Result<std::unique_ptr<Signals>> watch(event::Loop& loop);
  [[nodiscard]] static bool is_ending(int signum);  // one of the four
  Signals(const Signals&) = delete;                 // the watchers refer to it
  Signals& operator=(const Signals&) = delete;

  // Sets the handler, and calls it for signals that no handler got; null: none.
  void serve(OnSignal on_signal);
  void received(int signum, From from);

 private:
  Signals() = default;

  std::vector<event::SignalWatcher> watchers_;
  std::vector<std::pair<int, From>> kept_;
  OnSignal on_signal_;
};

}  // namespace nacre::join
