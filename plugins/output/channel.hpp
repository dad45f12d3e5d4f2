// SPDX-License-Identifier: Apache-2.0
//
// What the plugin `output` keeps of each stream that it reads.
#pragma once

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/assembler.hpp"
#include "plugins/output/tail.hpp"
#include "plugins/output/target.hpp"
#include "task/pty.hpp"

namespace nacre::plugins {

// One stream of one task, or of a process that writes as the task does.
struct OutputChannel {
  io::Source source;
  std::vector<OutputTarget*> places;
  std::optional<io::Assembler> assembler;
  UniqueFd task_end;         // until the task has it
  UniqueFd pipe;             // our end; none for a pty
  task::Pty* pty = nullptr;  // instead of a pipe
  int watched = -1;          // the descriptor that is read, while it is open
  std::optional<event::Poll> poll;
  bool paused = false;
  OutputChannel* main = nullptr;  // for a process that writes as a task does: the task's own channel
  int others = 0;                 // for a task: open channels of such processes
  bool ended = false;             // for a task: nothing more comes
  OutputTail tail;                // for a task: with the output of such processes

  [[nodiscard]] bool open() const { return watched >= 0; }
};

// The streams of one task.
struct TaskStreams {
  std::array<OutputChannel, io::kStreams.size()> channels;
  bool failed = false;  // the task has ended with a failure

  [[nodiscard]] OutputChannel& of(io::Stream stream) { return channels.at(static_cast<std::size_t>(stream)); }
  [[nodiscard]] bool is_complete() const {
    return failed && std::none_of(channels.begin(), channels.end(),
                                  [](const OutputChannel& each) { return each.open() || each.others > 0; });
  }
};

// All that this shell reads.
struct OutputChannels {
  std::map<std::uint32_t, TaskStreams> tasks;  // by rank
  std::list<OutputChannel> others;             // of processes that write as a task does

  template <typename Do>
  void for_each_open(Do what) {
    for (auto& [rank, output] : tasks) {
      for (OutputChannel& channel : output.channels) {
        if (channel.open()) what(channel);
      }
    }
    for (OutputChannel& channel : others) {
      if (channel.open()) what(channel);
    }
  }
};

}  // namespace nacre::plugins
