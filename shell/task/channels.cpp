// SPDX-License-Identifier: Apache-2.0
#include "task/channels.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace nacre::task {
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
