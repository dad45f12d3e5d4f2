// SPDX-License-Identifier: Apache-2.0
#include "transport/link_session.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/invariant.hpp"

namespace nacre::transport {

// ---- what this end sends --------------------------------------------------------

Result<void> LinkSession::send(std::string_view frame) {
  if (finishing_) return Error{EPIPE, "a frame after the last one"};
  if (frame.size() > limits_.max_frame) {
    return Error{EMSGSIZE,
                 fmt::format("a frame of {} bytes; at most {} are allowed", frame.size(), limits_.max_frame)};
  }
  if (control_bytes_ + frame.size() > limits_.max_control) {
    return Error{ENOBUFS, fmt::format("the other end has not taken {} bytes of control frames; {} may wait",
                                      control_bytes_, limits_.max_control)};
  }
  std::string record;
  record.reserve(kRecordHead + frame.size());
  append_frame_head(record, frame.size());
  record += frame;
  control_bytes_ += record.size();
  control_.push_back(std::move(record));
  was_full_ = was_full_ || !has_room();
  return {};
}

std::size_t LinkSession::room() const { return limits_.max_bulk - std::min(limits_.max_bulk, bulk_bytes_); }

std::size_t LinkSession::write(StreamId stream, std::string_view bytes) {
  if (finishing_ || bytes.empty()) return 0;
  Out& out = out_[stream];
  if (out.ended) return 0;
  std::size_t taken = std::min({bytes.size(), out.credit, room()});
  enqueue(stream, bytes.substr(0, taken));
  out.credit -= taken;
  out.waits = taken < bytes.size();
  if (out.waits && out.credit > 0) make_ready(stream, out);
  return taken;
}

void LinkSession::enqueue(StreamId stream, std::string_view bytes) {
  bulk_bytes_ += bytes.size();
  while (!bytes.empty()) {
    bool joins = !bulk_.empty() && bulk_.back().stream == stream && !bulk_.back().is_end &&
                 bulk_.back().bytes.size() < kMaxChunk;
    if (!joins) bulk_.push_back({stream, false, {}});
    std::string& chunk = bulk_.back().bytes;
    std::size_t size = std::min(bytes.size(), kMaxChunk - chunk.size());
    chunk += bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
}

Result<void> LinkSession::end(StreamId stream) {
  if (finishing_) return Error{EPIPE, "the end of a stream after the last frame"};
  Out& out = out_[stream];
  if (out.ended) return Error{EALREADY, fmt::format("stream {} has ended before", stream)};
  out.ended = true;
  bulk_.push_back({stream, true, {}});
  return {};
}

Result<void> LinkSession::grant(StreamId stream, std::size_t bytes) {
  if (bytes == 0) return {};
  auto found = in_.find(stream);
  if (found == in_.end()) {
    if (in_.size() >= limits_.max_streams) {
      return Error{EMFILE, fmt::format("credit for more than {} streams", limits_.max_streams)};
    }
    found = in_.emplace(stream, In{}).first;
  }
  In& in = found->second;
  if (bytes > kMaxCredit - in.granted) {
    return Error{ERANGE, fmt::format("credit of {} bytes for stream {}, which has {}; {} are allowed", bytes,
                                     stream, in.granted, kMaxCredit)};
  }
  if (in.unsent == 0) credited_.push_back(stream);
  in.granted += bytes;
  in.unsent += static_cast<std::uint32_t>(bytes);
  return {};
}

void LinkSession::finish() { finishing_ = true; }

std::size_t LinkSession::credit(StreamId stream) const {
  auto found = out_.find(stream);
  return found == out_.end() ? 0 : found->second.credit;
}

// ---- the order of sending --------------------------------------------------------

bool LinkSession::fill(std::string& out, std::size_t target) {
  std::size_t before = out.size();
  while (out.size() < target) {
    std::size_t size = out.size();
    if (control_sent_ == 0) fill_notices(out);  // not into the middle of a frame
    if (!control_.empty()) {
      fill_control(out, target);
    } else if (!bulk_.empty()) {
      fill_chunk(out);
    }
    if (out.size() == size) break;
  }
  if (finishing_ && !finish_filled_ && control_.empty() && bulk_.empty()) {
    append_finish(out);
    finish_filled_ = true;
  }
  return out.size() > before;
}

void LinkSession::fill_notices(std::string& out) {
  for (StreamId stream : ended_) append_stream_record(out, LinkRecordKind::ended, stream);
  ended_.clear();
  for (StreamId stream : credited_) {
    auto found = in_.find(stream);
    if (found == in_.end() || found->second.unsent == 0) continue;
    append_credit(out, stream, std::exchange(found->second.unsent, 0));
  }
  credited_.clear();
}

void LinkSession::fill_control(std::string& out, std::size_t target) {
  const std::string& first = control_.front();
  std::size_t size = std::min(first.size() - control_sent_, target - std::min(target, out.size()));
  out.append(first, control_sent_, size);
  control_sent_ += size;
  INVARIANT(control_bytes_ >= size);
  control_bytes_ -= size;
  if (control_sent_ < first.size()) return;
  control_.pop_front();
  control_sent_ = 0;
}

void LinkSession::fill_chunk(std::string& out) {
  const Chunk& chunk = bulk_.front();
  if (chunk.is_end) {
    append_stream_record(out, LinkRecordKind::end, chunk.stream);
  } else {
    append_bulk_head(out, chunk.stream, chunk.bytes.size());
    out += chunk.bytes;
    INVARIANT(bulk_bytes_ >= chunk.bytes.size());
    bulk_bytes_ -= chunk.bytes.size();
  }
  bulk_.pop_front();
}

void LinkSession::make_ready(StreamId stream, Out& out) {
  if (!std::exchange(out.in_ready, true)) ready_.push_back(stream);
}

std::optional<std::pair<StreamId, std::size_t>> LinkSession::next_ready() {
  while (!ready_.empty() && room() > 0 && !finishing_) {
    StreamId stream = ready_.front();
    ready_.pop_front();
    auto found = out_.find(stream);
    if (found == out_.end()) continue;
    Out& out = found->second;
    out.in_ready = false;
    if (out.ended || out.credit == 0 || !std::exchange(out.waits, false)) continue;
    return std::pair(stream, std::min(out.credit, room()));
  }
  return std::nullopt;
}

// ---- what the other end sends ----------------------------------------------------

Result<std::optional<Arrival>> LinkSession::next() {
  for (;;) {
    std::optional<LinkRecord> record = TRY(reader_.next());
    if (!record) return std::optional<Arrival>();
    std::optional<Arrival> arrival = TRY(arrive(*record));
    if (arrival) return arrival;
  }
}

Result<std::optional<Arrival>> LinkSession::arrive(const LinkRecord& record) {
  bool is_notice = record.kind == LinkRecordKind::credit || record.kind == LinkRecordKind::ended;
  if (peer_finished_ && !is_notice) {
    return Error{EPROTO, fmt::format("a record of kind {} after the last one", static_cast<unsigned>(record.kind))};
  }
  switch (record.kind) {
    case LinkRecordKind::frame: return std::optional(Arrival{Arrival::Kind::frame, 0, record.body});
    case LinkRecordKind::bulk:
      CHECK_OK(take_bulk(record));
      return std::optional(Arrival{Arrival::Kind::bulk, record.stream, record.body});
    case LinkRecordKind::end:
      CHECK_OK(take_end(record.stream));
      return std::optional(Arrival{Arrival::Kind::end, record.stream, {}});
    case LinkRecordKind::credit: CHECK_OK(take_credit(record)); break;
    case LinkRecordKind::ended:
      if (auto found = out_.find(record.stream); found != out_.end() && found->second.ended) out_.erase(found);
      break;
    case LinkRecordKind::finish: peer_finished_ = true; return std::optional(Arrival{Arrival::Kind::finish, 0, {}});
  }
  return std::optional<Arrival>();
}

Result<void> LinkSession::take_credit(const LinkRecord& record) {
  auto found = out_.find(record.stream);
  if (found == out_.end()) {
    if (out_.size() >= limits_.max_streams) {
      return Error{EPROTO, fmt::format("credit for more than {} streams", limits_.max_streams)};
    }
    found = out_.emplace(record.stream, Out{}).first;
  }
  Out& out = found->second;
  if (record.credit > kMaxCredit - out.credit) {
    return Error{EPROTO, fmt::format("credit of {} bytes for stream {}, which has {}; {} are allowed",
                                     record.credit, record.stream, out.credit, kMaxCredit)};
  }
  out.credit += record.credit;
  if (out.waits) make_ready(record.stream, out);
  return {};
}

Result<void> LinkSession::take_bulk(const LinkRecord& record) {
  auto found = in_.find(record.stream);
  std::size_t granted = found == in_.end() ? 0 : found->second.granted;
  if (record.body.size() > granted) {
    return Error{EPROTO, fmt::format("{} bytes of stream {}, which has credit for {}", record.body.size(),
                                     record.stream, granted)};
  }
  found->second.granted -= record.body.size();
  return {};
}

Result<void> LinkSession::take_end(StreamId stream) {
  if (ended_.size() >= limits_.max_streams) {
    return Error{EPROTO, fmt::format("{} streams ended, and no notice of it is taken", ended_.size())};
  }
  in_.erase(stream);
  ended_.push_back(stream);
  return {};
}

}  // namespace nacre::transport
