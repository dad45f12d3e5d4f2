// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/target.hpp"

#include <array>

#include "io/batch_wire.hpp"

namespace nacre::plugins {

Result<std::unique_ptr<OutputTarget>> OutputTarget::create(event::Loop& loop, int fd, UniqueFd own, Options options,
                                                           Callbacks callbacks) {
  std::unique_ptr<OutputTarget> place(new OutputTarget(std::move(own), std::move(options), std::move(callbacks)));
  io::FdSink::Callbacks sink_callbacks;
  sink_callbacks.on_room = [self = place.get()] { self->callbacks_.on_room(); };
  sink_callbacks.on_error = [self = place.get()](const Error& error) { self->note(error); };
  sink_callbacks.on_spill = place->callbacks_.on_spill;
  sink_callbacks.after_error = [self = place.get()](const Error& error, std::size_t bytes) {
    return self->after_error(error, bytes);
  };
  const Options& wanted = place->options_;
  auto sink = TRY(io::FdSink::create(loop, fd, wanted.name, wanted.sink, std::move(sink_callbacks)));
  place->sink_ = sink.get();
  place->destination_ =
      std::make_unique<io::Destination>(io::Format::create(wanted.format), std::move(sink), wanted.limit);
  return place;
}

std::unique_ptr<OutputTarget> OutputTarget::create(OutputUplink& uplink, io::Stream stream, Callbacks callbacks) {
  Options options;
  options.name = io::name_of(stream);
  std::unique_ptr<OutputTarget> place(new OutputTarget(UniqueFd(), std::move(options), std::move(callbacks)));
  place->destination_ = std::make_unique<io::Destination>(std::make_unique<io::WireFormat>(stream),
                                                          uplink.sink(stream), std::nullopt);
  return place;
}

void OutputTarget::expect(std::size_t sources) {
  if (options_.fold) folder_.emplace(sources);
}

void OutputTarget::redirect(plugin::OutputFile* to) {
  file_ = to;
  auto fd = to != nullptr ? to->file() : std::nullopt;
  if (!fd || is_redirected_ || sink_ == nullptr) return;
  is_redirected_ = true;
  sink_->redirect(*fd);
}

// Within redirect() of another place the file may have come to be there.
io::FdSink::AfterError OutputTarget::after_error(const Error& why, std::size_t bytes) {
  using AfterError = io::FdSink::AfterError;
  if (file_ == nullptr) return AfterError::fail;
  if (is_redirected_) {
    file_->lost(why, bytes);
    return AfterError::drop;
  }
  if (!file_->closed()) return AfterError::fail;
  redirect(file_);
  return is_redirected_ ? AfterError::again : AfterError::fail;
}

void OutputTarget::put(const io::Batch& batch) {
  if (failed_) return;
  if (follower_ != nullptr) follower_->put(batch);
  if (!folder_) return note(destination_->put(batch));
  folder_->add(batch, [this](const io::Batch& line) { note(destination_->put(line)); });
}

void OutputTarget::end(const io::Source& source, double time) {
  if (failed_) return;
  if (folder_ && !source.is_part)
    folder_->end(source, [this](const io::Batch& line) { note(destination_->put(line)); });
  note(destination_->end(source, time));
}

void OutputTarget::write(std::string_view text) {
  if (failed_) return;
  std::array<std::string_view, 1> pieces{text};
  note(destination_->sink().write(pieces));
}

std::optional<double> OutputTarget::expire(double time) {
  if (failed_ || !folder_) return std::nullopt;
  folder_->expire(time, [this](const io::Batch& line) { note(destination_->put(line)); });
  return folder_->deadline();
}

void OutputTarget::note(Result<void> result) {
  if (result || failed_) return;
  failed_ = true;
  callbacks_.on_error(*this, result.error());
}

}  // namespace nacre::plugins
