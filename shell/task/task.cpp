// SPDX-License-Identifier: Apache-2.0
#include "task/task.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

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

// ---- channels ---------------------------------------------------------------------------

namespace {

struct Ends {
  UniqueFd ours;
  UniqueFd theirs;
  int target = -1;  // the descriptor's number in the other process
};

Result<Ends> make_ends(const Command& command, std::string_view name) {
  if (name == "stdin" || name == "stdout" || name == "stderr") {
    bool in = name == "stdin";
    Pipe pipe = TRY(make_pipe(O_CLOEXEC));
    Ends ends{std::move(pipe.read), std::move(pipe.write), STDERR_FILENO};
    if (in) std::swap(ends.ours, ends.theirs);
    if (name != "stderr") ends.target = in ? STDIN_FILENO : STDOUT_FILENO;
    return ends;
  }
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
    return system_error(errno, fmt::format("cannot open channel {}", name));
  }
  return Ends{UniqueFd(pair[0]), UniqueFd(pair[1]), command.setup.unused_target()};
}

Result<std::size_t> bytes_of(std::string_view text) {
  std::size_t number = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  auto shift = unit.empty() ? std::string_view::npos : std::string_view("KMG").find(unit);
  if (failed != std::errc() || number == 0 || (!unit.empty() && (unit.size() > 1 || shift > 2))) {
    return invalid(fmt::format("expected a size such as 65536, 64K or 4M, got '{}'", text));
  }
  if (unit.empty()) return number;
  auto bits = 10 * (shift + 1);
  if (number > (SIZE_MAX >> bits)) return invalid(fmt::format("{} is too large", text));
  return number << bits;
}

// Applies the options of this stream, by the part of their names after the stream's name.
Result<bool> apply_options(const Command& command, const std::string& name, BufferedStream::Options& options) {
  auto find = [&](const char* what) -> const std::string* {
    auto it = command.stream_options.find(name + what);
    return it != command.stream_options.end() ? &it->second : nullptr;
  };
  if (const auto* wish = find("_LINE_BUFFER")) options.by_line = *wish != "false";
  if (const auto* wish = find("_BUFSIZE")) {
    options.buffer_size = TRY(in(name + "_BUFSIZE", bytes_of(*wish)));
  }
  const auto* wish = find("_STREAM_STOP");
  return wish != nullptr && *wish == "true";
}

}  // namespace

Result<void> Channels::open(event::Loop& loop, Command& command, const std::string& name) {
  if (find(name) != nullptr) return Error{EEXIST, fmt::format("there is a channel {} already", name)};
  CHECK_OK(job::Environment::check(name, ""));
  Ends ends = TRY(make_ends(command, name));
  BufferedStream::Options options;
  bool socket = ends.target > STDERR_FILENO;
  options.readable = name != "stdin";
  options.writable = socket || name == "stdin";
  bool stopped = TRY(apply_options(command, name, options));
  streams_[name] = TRY(BufferedStream::create(loop, std::move(ends.ours), options, callbacks_of(name)));
  if (stopped) streams_[name]->pause();
  command.setup.fds.push_back({ends.target, ends.theirs.get()});
  others_.push_back(std::move(ends.theirs));
  if (socket) command.env.set(name, std::to_string(ends.target));
  return {};
}

Result<void> Channels::add(event::Loop& loop, const Command& command, const std::string& name, UniqueFd ours) {
  if (find(name) != nullptr) return Error{EEXIST, fmt::format("there is a channel {} already", name)};
  BufferedStream::Options options;
  options.writable = true;
  bool stopped = TRY(apply_options(command, name, options));
  streams_[name] = TRY(BufferedStream::create(loop, std::move(ours), options, callbacks_of(name)));
  if (stopped) streams_[name]->pause();
  return {};
}

BufferedStream::Callbacks Channels::callbacks_of(const std::string& name) {
  BufferedStream::Callbacks out;
  if (callbacks_.on_ready) out.on_ready = [this, name] { callbacks_.on_ready(name); };
  if (callbacks_.on_end) out.on_end = [this, name] { callbacks_.on_end(name); };
  if (callbacks_.on_room) out.on_room = [this, name](std::size_t bytes) { callbacks_.on_room(name, bytes); };
  return out;
}

BufferedStream* Channels::find(std::string_view name) const {
  auto it = streams_.find(name);
  return it != streams_.end() ? it->second.get() : nullptr;
}

std::size_t Channels::open_count() const {
  return static_cast<std::size_t>(
      std::count_if(streams_.begin(), streams_.end(), [](const auto& each) { return !each.second->at_end(); }));
}

}  // namespace nacre::task
