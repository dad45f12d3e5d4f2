// SPDX-License-Identifier: Apache-2.0
//
// Makes the channels that tasks write to, for the plugin `output`, before they start.
#pragma once

#include <cstddef>
#include <optional>

#include "plugin/host.hpp"
#include "plugins/output/channel.hpp"
#include "plugins/output/options.hpp"
#include "plugins/output/routing.hpp"

namespace nacre::plugins {

class ChannelMaker {
 public:
  // All have to outlive it. No places: the plan is only printed.
  ChannelMaker(plugin::Host& host, const OutputOptions& options, std::optional<OutputRouting>& places)
      : host_(host), options_(options), places_(places) {}

  // How many tasks of this shell have their output read: their pipes share what the system gives to one user.
  void expect(std::size_t tasks) { printed_ = tasks; }
  // What the task gets as stdout and stderr: pipes of `output`, files of its own, /dev/null; or its terminal's output is read.
  Result<void> prepare(task::Task& task, TaskStreams& output);
  // A pipe for a process that writes as the task does.
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
