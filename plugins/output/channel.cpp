// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/channel.hpp"

namespace nacre::plugins {

TaskStreams& OutputChannels::begin(const task::Task& task, bool may_start_again) {
  TaskStreams& streams = task.attempt() > 1 ? renew(task.rank()) : tasks[task.rank()];
  streams.is_last = !may_start_again;
  return streams;
}

// What is open of the earlier start goes on as a process that writes as the task does.
TaskStreams& OutputChannels::renew(std::uint32_t rank) {
  auto node = tasks.extract(rank);
  TaskStreams& fresh = tasks[rank];
  if (!node) return fresh;
  for (io::Stream stream : io::kStreams) {
    OutputChannel& old = node.mapped().of(stream);
    OutputChannel& main = fresh.of(stream);
    main.others = std::exchange(old.others, 0) + (old.open() ? 1 : 0);
    auto follow = [&](OutputChannel& each) {
      if (each.main == &old) each.main = &main;
    };
    for (OutputChannel& each : others) follow(each);
    for (auto& each : earlier) follow(each.mapped().of(stream));
    old.main = &main;
    old.source.is_part = true;
  }
  std::erase_if(earlier, [](auto& each) {
    const auto& channels = each.mapped().channels;
    return std::none_of(channels.begin(), channels.end(), [](const auto& channel) { return channel.open(); });
  });
  earlier.push_back(std::move(node));
  return fresh;
}

void OutputChannels::end_source(OutputChannel& channel, double now) {
  OutputChannel& main = channel.main != nullptr ? *channel.main : channel;
  if (channel.main == nullptr) {
    main.ended = true;
  } else {
    for (OutputTarget* place : channel.places) place->end(channel.source, now);
    --main.others;
  }
  end_if_over(main, now);
}

void OutputChannels::end_if_over(OutputChannel& main, double now) {
  if (!main.ended || main.others > 0 || !tasks.at(main.source.rank).is_last) return;
  for (OutputTarget* place : main.places) place->end(main.source, now);
}

bool OutputChannels::end_for_good(const task::Task& task, double now) {
  TaskStreams& output = tasks[task.rank()];
  output.failed = task.status().job_code() != 0;
  if (!std::exchange(output.is_last, true)) {
    for (OutputChannel& channel : output.channels) end_if_over(channel, now);
  }
  return output.is_complete();
}

std::vector<std::uint32_t> OutputChannels::end_all_for_good(std::span<const std::unique_ptr<task::Task>> all,
                                                            double now) {
  std::vector<std::uint32_t> out;
  for (const auto& task : all) {
    auto found = tasks.find(task->rank());
    bool waits = found != tasks.end() && !found->second.is_last && task->state() == task::State::exited;
    if (waits && end_for_good(*task, now)) out.push_back(task->rank());
  }
  return out;
}

}  // namespace nacre::plugins
