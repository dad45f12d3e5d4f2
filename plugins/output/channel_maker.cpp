// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/channel_maker.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "plugin/tags.hpp"
#include "plugins/output/pipe_size.hpp"

namespace nacre::plugins {

Result<task::Task> task_elsewhere(const job::Job& job, std::int64_t rank) {
  constexpr std::uint32_t kBegun = 2;
  if (rank < 0 || static_cast<std::uint64_t>(rank) >= job.tasks())
    return invalid(fmt::format("there is no task {}", rank));
  const auto id = static_cast<value::Idset::Id>(rank);
  const auto up_to = job.taskmap.ranks_on(TRY(job.taskmap.node_of(id))) & value::Idset::range(0, id);
  return task::Task(id, static_cast<std::uint32_t>(up_to.size() - 1), {}, kBegun);
}

Result<void> ChannelMaker::prepare(task::Task& task, TaskStreams& output) {
  if (task.pty() != nullptr) return prepare_pty(task, output);
  for (io::Stream stream : io::kStreams) {
    OutputChannel& channel = output.of(stream);
    if (!options_.prints(task.rank())) {
      // goes to /dev/null
    } else if (places_ && places_->direct(stream)) {
      channel.task_end = TRY(places_->open_for(task, stream));
    } else {
      CHECK_OK(add_pipe(task, stream, channel));
    }
    int target = stream == io::Stream::out ? STDOUT_FILENO : STDERR_FILENO;
    task.command().setup.fds.push_back({target, channel.task_end.get()});
  }
  return {};
}

Result<void> ChannelMaker::add_pipe(const task::Task& task, io::Stream stream, OutputChannel& channel) const {
  CHECK_OK(make(task, stream, channel));
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  // A spare that takes tasks over has expected none.
  widen_pipe(pipe.write.get(), io::kStreams.size() * (printed_ > 0 ? printed_ : host_.tasks().size()));
  channel.pipe = std::move(pipe.read);
  channel.task_end = std::move(pipe.write);
  return {};
}

// What is written to a terminal is stdout, if that is wanted at all.
Result<void> ChannelMaker::prepare_pty(const task::Task& task, TaskStreams& output) const {
  if (!task.pty()->captured() || !options_.prints(task.rank())) return {};
  OutputChannel& channel = output.of(io::Stream::out);
  channel.pty = task.pty();
  return make(task, io::Stream::out, channel);
}

Result<void> ChannelMaker::make(const task::Task& task, io::Stream stream, OutputChannel& channel) const {
  const auto& label = options_.streams.at(static_cast<std::size_t>(stream)).label;
  channel.source.rank = task.rank();
  channel.source.stream = stream;
  if (label) channel.source.label = TRY(plugin::render_tags(host_, *label, {std::nullopt, &task}));
  channel.assembler.emplace(channel.source, buffering(stream));
  if (places_) channel.places = TRY(places_->of(task, stream));
  return {};
}

// A single task that writes to a terminal or a pipe is not buffered: a prompt, or half a line, appears at once.
io::Buffering ChannelMaker::buffering(io::Stream stream) const {
  const StreamOptions& options = options_.streams.at(static_cast<std::size_t>(stream));
  bool alone = host_.job().tasks() == 1 && options.types == std::vector{OutputType::term};
  return alone && options.plain() && options.buffering == io::Buffering::line ? io::Buffering::none
                                                                              : options.buffering;
}

}  // namespace nacre::plugins
