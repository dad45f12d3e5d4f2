// SPDX-License-Identifier: Apache-2.0
//
// What the plugin `output` keeps of each stream that it reads.
#pragma once

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/assembler.hpp"
#include "plugin/task_output.hpp"
#include "plugins/output/tail.hpp"
#include "plugins/output/target.hpp"
#include "task/pty.hpp"
#include "task/task.hpp"
#include "timeline/recorder.hpp"

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
  // Of a shell that has so many tasks; `time`: when it was read, seconds since the Epoch.
  void note(std::string_view bytes, std::size_t tasks, double time) {
    if (pty != nullptr) pty->note(bytes);
    (main != nullptr ? main->tail : tail).add(bytes, tail_size(source.stream, tasks), time);
  }
};

// The streams of one task.
struct TaskStreams {
  std::array<OutputChannel, io::kStreams.size()> channels;
  bool failed = false;       // the task has ended with a failure
  bool has_written = false;  // as the timeline has noted
  bool is_last = true;       // the task has ended for good, or nobody would start it again

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
  // Of tasks that were started again: what they have left behind may still write, as such processes do.
  std::vector<std::map<std::uint32_t, TaskStreams>::node_type> earlier;

  // The streams of a task that is about to start, perhaps again.
  TaskStreams& begin(const task::Task& task, bool may_start_again);
  // Nothing more comes from a channel. A task's stream is over when no process writes as the task any more, and it
  // does not start again.
  void end_source(OutputChannel& channel, double now);
  // The task does not start again. Returns whether it has failed and its streams are over.
  bool end_for_good(const task::Task& task, double now);
  // The same of all that were to start again; returns the ranks of those for which it is true.
  std::vector<std::uint32_t> end_all_for_good(std::span<const std::unique_ptr<task::Task>> all, double now);

  // There is something to read from it.
  void note_first(const OutputChannel& channel, timeline::Recorder& recorder) {
    if (!recorder.is_on() || std::exchange(tasks.at(channel.source.rank).has_written, true)) return;
    recorder.add(timeline::Kind::first_output, channel.source.rank);
  }

  // On a terminal all is standard output's.
  [[nodiscard]] plugin::TaskOutput::Written written(std::uint32_t rank) const {
    auto found = tasks.find(rank);
    if (found == tasks.end()) return {};
    const auto& [out, err] = found->second.channels;
    auto bytes = [](const OutputChannel& each) {
      return each.assembler ? std::optional(each.tail.size()) : std::nullopt;
    };
    return {bytes(out), out.pty != nullptr ? std::optional<std::uint64_t>(0) : bytes(err),
            std::max(out.tail.last_time(), err.tail.last_time())};
  }

  // `what` may close channels.
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
    for (auto& each : earlier) {
      for (OutputChannel& channel : each.mapped().channels) {
        if (channel.open()) what(channel);
      }
    }
  }

 private:
  TaskStreams& renew(std::uint32_t rank);
  void end_if_over(OutputChannel& main, double now);
};

}  // namespace nacre::plugins
