// SPDX-License-Identifier: Apache-2.0
#include "task/task.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "base/invariant.hpp"

namespace nacre::task {
namespace {

// Whether the process neither catches nor ignores the signal; false if that cannot be found out.
bool takes_by_default(pid_t pid, int signum) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  const std::uint64_t bit = std::uint64_t{1} << (signum - 1);
  bool is_known = false;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigIgn:") && !line.starts_with("SigCgt:")) continue;
    if ((std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16) & bit) != 0) return false;
    is_known = true;
  }
  return is_known;
}

}  // namespace

std::string_view state_name(State state) {
  switch (state) {
    case State::init: return "Init";
    case State::running: return "Running";
    case State::exited: return "Exited";
  }
  return "Unknown";
}

void Task::started(pid_t pid, UniqueFd io) {
  INVARIANT(state_ == State::init && pid > 0);
  state_ = State::running;
  pid_ = pid;
  io_ = std::move(io);
  if (channels_) channels_->started();
  if (pty_) pty_->close_slave();
}

void Task::set_pty(std::unique_ptr<Pty> pty) {
  pty_ = std::move(pty);
  ChildSetup& setup = command_.setup;
  setup.controlling_terminal = true;
  for (int target : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) setup.fds.push_back({target, pty_->slave()});
}

Result<void> Task::subscribe(const std::string& channel, std::function<void()> on_ready) {
  const auto& fds = command_.setup.fds;
  int target = channel == "stdout" ? STDOUT_FILENO : channel == "stderr" ? STDERR_FILENO : -1;
  bool given = std::any_of(fds.begin(), fds.end(), [target](const auto& fd) { return fd.target == target; });
  if (given || subscribers_.contains(channel)) return Error{EEXIST, channel + " has a reader already"};
  auto& channels = command_.channels;
  if (target < 0 && std::find(channels.begin(), channels.end(), channel) == channels.end()) {
    return Error{ENOENT, "the task has no channel " + channel};
  }
  if (target >= 0) channels.push_back(channel);
  subscribers_[channel] = std::move(on_ready);
  return {};
}

Result<void> Task::open_channels(event::Loop& loop, std::function<void()> on_end) {
  if (command_.channels.empty()) return {};
  auto on_ready = [this](const std::string& channel) {
    auto it = subscribers_.find(channel);
    if (it != subscribers_.end()) return it->second();
    channels_->find(channel)->read();
  };
  auto ended = [on_end = std::move(on_end)](const std::string& /*channel*/) { on_end(); };
  channels_ = std::make_unique<Channels>(Channels::Callbacks{on_ready, ended, {}});
  for (const std::string& each : command_.channels) CHECK_OK(channels_->open(loop, command_, each));
  return {};
}

BufferedStream* Task::channel(std::string_view name) const { return channels_ ? channels_->find(name) : nullptr; }

void Task::exited(const value::WaitStatus& status, const rusage& usage, const event::Death& death) {
  INVARIANT(state_ != State::exited);
  if (state_ == State::init && channels_) channels_->started();  // the ends will never be used
  if (pty_) pty_->close_slave();
  state_ = State::exited;
  io_.reset();
  status_ = status;
  usage_ = usage;
  death_ = death;
}

void Task::give_up() {
  exited(value::WaitStatus::killed(SIGKILL), {});
  is_given_up_ = true;
}

bool Task::kill(int signum) const {
  if (state_ != State::running) return false;
  bool leads =
      command_.setup.new_process_group || command_.setup.new_session || command_.setup.controlling_terminal;
  // The kernel drops these for a session whose leader's parent is elsewhere, as of one without job control.
  bool is_dropped = signum == SIGTSTP || signum == SIGTTIN || signum == SIGTTOU;
  if (is_dropped && command_.setup.new_session && takes_by_default(pid_, signum)) signum = SIGSTOP;
  return ::kill(leads ? -pid_ : pid_, signum) == 0;
}

void Task::kill_left() const {
  bool leads = command_.setup.new_process_group || command_.setup.new_session;
  if (state_ == State::exited && leads && pid_ > 0) ::kill(-pid_, SIGKILL);
}

Json Task::info() const {
  Json out{{"localid", local_id_}, {"rank", rank_}, {"state", state_name(state_)}};
  if (pid_ > 0) out["pid"] = pid_;
  if (state_ == State::exited) {
    out["wait_status"] = status_.raw();
    if (status_.is_exit()) out["exitcode"] = status_.exit_code();
    out["signaled"] = status_.signal();
    if (starts_again_) out["starts_again"] = true;
  }
  return out;
}

}  // namespace nacre::task
