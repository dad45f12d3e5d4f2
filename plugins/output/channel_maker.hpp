// SPDX-License-Identifier: Apache-2.0
//
// Makes the channels to which tasks write, before they start, for the plugin `output`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "plugin/host.hpp"
#include "plugins/output/channel.hpp"
#include "plugins/output/options.hpp"
#include "plugins/output/routing.hpp"

namespace nacre::plugins {

// Stands for a task of another shell, as whose part processes of this one write. A file of its own has been begun
// there, so it is one that starts again.
Result<task::Task> task_elsewhere(const job::Job& job, std::int64_t rank);

class ChannelMaker {
 public:
  // All have to outlive it. `places` may be empty: then the plan is only printed.
  ChannelMaker(plugin::Host& host, const OutputOptions& options, std::optional<OutputRouting>& places)
      : host_(host), options_(options), places_(places) {}

  // Sets how many tasks of this shell have their output read: their pipes share what the system allows one user.
  void expect(std::size_t tasks) { printed_ = tasks; }
  // Makes what the task gets as stdout and stderr: pipes of `output`, files of its own, or /dev/null; or makes its
  // terminal's output be read.
  Result<void> prepare(task::Task& task, TaskStreams& output);
  // Makes a pipe for a process that writes as the task does.
  Result<void> add_pipe(const task::Task& task, io::Stream stream, OutputChannel& channel) const;

 private:
  Result<void> prepare_pty(const task::Task& task, TaskStreams& output) const;
  Result<void> make(const task::Task& task, io::Stream stream, OutputChannel& channel) const;
  [[nodiscard]] io::Buffering buffering(io::Stream stream) const;

  plugin::Host& host_;
  const OutputOptions& options_;
  std::optional<OutputRouting>& places_;
  std::size_t printed_ = 0;
};

}  // namespace nacre::plugins
