// SPDX-License-Identifier: Apache-2.0
//
// The streams between this process and one that it starts, by name: "stdin", "stdout" and "stderr" as pipes, and
// channels, sockets of both directions. The other process finds the number of a channel's descriptor in the
// environment variable of the channel's name.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "task/command.hpp"
#include "task/stream.hpp"

namespace nacre::task {

class Channels {
 public:
  struct Callbacks {
    std::function<void(const std::string& name)> on_ready;
    std::function<void(const std::string& name)> on_end;
    std::function<void(const std::string& name, std::size_t bytes)> on_room;
  };
  explicit Channels(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  // Opens a channel before `command` starts, and adds the other side's end to it, as the command's stream_options
  // demand: NAME_LINE_BUFFER "false", NAME_BUFSIZE in bytes, with K, M or G, NAME_STREAM_STOP "true" (paused until
  // it is resumed). EEXIST: there is one of this name; EINVAL: the name cannot be that of a variable, or an option
  // is malformed.
  Result<void> open(event::Loop& loop, Command& command, const std::string& name);
  // The same with a descriptor of the caller's, for both directions; the other side's end is the caller's too.
  Result<void> add(event::Loop& loop, const Command& command, const std::string& name, UniqueFd ours);
  void started() { others_.clear(); }  // the other process has its ends: closes our copies of them

  [[nodiscard]] BufferedStream* find(std::string_view name) const;  // nullptr: none
  [[nodiscard]] std::size_t open_count() const;                     // how many have not come to their end
  [[nodiscard]] bool reading() const { return open_count() > 0; }

 private:
  BufferedStream::Callbacks callbacks_of(const std::string& name);

  Callbacks callbacks_;
  std::map<std::string, std::unique_ptr<BufferedStream>, std::less<>> streams_;
  std::vector<UniqueFd> others_;
};

}  // namespace nacre::task
