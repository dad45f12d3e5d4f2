// SPDX-License-Identifier: Apache-2.0
#include "io/destination.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::io {

Result<void> Destination::put(const Batch& whole) {
  Batch batch = whole;
  if (limit_) CHECK_OK(cut(batch));
  if (batch.empty()) return {};
  if (!sink_->takes()) {
    count_dropped(batch);
    return {};
  }
  CHECK_OK(note_dropped(batch.time));
  return sink_->write(format_->put(batch));
}

Result<void> Destination::end(const Source& source, double time) {
  CHECK_OK(note_dropped(time));
  return sink_->write(format_->end(source, time));
}

Result<void> Destination::notice(std::string_view message, double time) {
  return sink_->write(format_->notice(message, time));
}

Result<void> Destination::cut(Batch& batch) {
  auto index = static_cast<std::size_t>(batch.source->stream);
  std::uint64_t room = *limit_ - taken_.at(index);
  std::uint64_t size = batch.size();
  if (size <= room) {
    taken_.at(index) += size;
    return {};
  }
  bool first = std::exchange(lost_.at(index).over_limit, lost_.at(index).over_limit + size - room) == 0;
  taken_.at(index) = *limit_;
  Batch kept = batch;
  kept.head = batch.head.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(room, batch.head.size())));
  kept.body = batch.body.substr(0, static_cast<std::size_t>(room - kept.head.size()));
  kept.open = false;
  batch = Batch();
  if (!first) return {};
  if (!kept.empty() && !sink_->takes()) {
    count_dropped(kept);
    kept.head = kept.body = {};
  }
  CHECK_OK(note_dropped(kept.time));
  if (!kept.empty()) CHECK_OK(sink_->write(format_->put(kept)));
  return notice(fmt::format("[{} is cut here: output.limit is {} bytes]", name_of(kept.source->stream), *limit_),
                kept.time);
}

Result<void> Destination::note_dropped(double time) {
  if (unnoted_.dropped == 0) return {};
  Lost lost = std::exchange(unnoted_, {});
  return notice(
      fmt::format("[{} lines, {} bytes dropped here: the reader is too slow]", lost.dropped_lines, lost.dropped),
      time);
}

void Destination::count_dropped(const Batch& batch) {
  auto newlines = std::count(batch.head.begin(), batch.head.end(), '\n') +
                  std::count(batch.body.begin(), batch.body.end(), '\n') + (batch.last() == '\n' ? 0 : 1);
  for (Lost* each : {&unnoted_, &lost_.at(static_cast<std::size_t>(batch.source->stream))}) {
    each->dropped += batch.size();
    each->dropped_lines += static_cast<std::uint64_t>(newlines);
  }
}

}  // namespace nacre::io
