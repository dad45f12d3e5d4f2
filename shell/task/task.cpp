// SPDX-License-Identifier: Apache-2.0
#include "task/task.hpp"

#include <cassert>
#include <csignal>

#include <nlohmann/json.hpp>

namespace nacre::task {

std::string_view state_name(State state) {
  switch (state) {
    case State::init: return "Init";
    case State::running: return "Running";
    case State::exited: return "Exited";
  }
  return "Unknown";
}

void Task::started(pid_t pid) {
  assert(state_ == State::init && pid > 0);
  state_ = State::running;
  pid_ = pid;
}

void Task::exited(const value::WaitStatus& status, const rusage& usage) {
  assert(state_ != State::exited);
  state_ = State::exited;
  status_ = status;
  usage_ = usage;
}

bool Task::kill(int signum) const {
  if (state_ != State::running) return false;
  return ::kill(command_.setup.new_process_group ? -pid_ : pid_, signum) == 0;
}

Json Task::info() const {
  Json out{{"localid", local_id_}, {"rank", rank_}, {"state", state_name(state_)}};
  if (pid_ > 0) out["pid"] = pid_;
  if (state_ == State::exited) {
    out["wait_status"] = status_.raw();
    if (status_.is_exit()) out["exitcode"] = status_.exit_code();
    out["signaled"] = status_.signal();
  }
  return out;
}

}  // namespace nacre::task
