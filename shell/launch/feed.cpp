// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "launch/stream.hpp"

namespace nacre::launch {
namespace {

// Bytes that are read before the leader's agent has taken them
constexpr std::size_t kAhead = std::size_t{256} << 10;

}  // namespace

Result<std::unique_ptr<LaunchFeed>> LaunchFeed::create(event::Loop& loop, task::BufferedStream& to, int input) {
  std::unique_ptr<LaunchFeed> out(new LaunchFeed(to));
  LaunchFeed* self = out.get();
  if (input == kOpenInput) return out;
  InputReader::Callbacks callbacks;
  callbacks.room = [self]() -> std::size_t { return self->unsent() < kAhead ? transport::kMaxChunk : 0; };
  callbacks.on_bytes = [self](std::string_view bytes) { self->send_input(bytes); };
  callbacks.on_end = [self] { self->end_input(); };
  auto reader = InputReader::create(loop, input, std::move(callbacks));
  if (!reader && reader.error().code != EBADF) return std::move(reader).error();
  if (reader) self->input_ = *std::move(reader);
  if (!reader) self->end_input();
  return out;
}

void LaunchFeed::signal(int signum) { send("signal", signum); }

void LaunchFeed::end(int signum) { send("end", signum); }

void LaunchFeed::detach() { send_frame(R"({"detach":true})"); }

void LaunchFeed::send(std::string_view what, int signum) { send_frame(fmt::format("{{\"{}\":{}}}", what, signum)); }

void LaunchFeed::send_frame(const std::string& body) {
  std::string record;
  transport::append_frame_head(record, body.size());
  // If it fails the shell has gone, and the end of its agent reports that.
  static_cast<void>(to_.write(record + body));
}

std::size_t LaunchFeed::unsent() const {
  return task::BufferedStream::kBufferSize - std::min(to_.room(), task::BufferedStream::kBufferSize);
}

void LaunchFeed::on_room() {
  if (input_) input_->go_on();
}

void LaunchFeed::send_input(std::string_view bytes) {
  std::string record;
  transport::append_bulk_head(record, kInputStream, bytes.size());
  record += bytes;
  if (to_.write(record)) return;
  input_->stop();
  end_input();
}

void LaunchFeed::end_input() {
  std::string record;
  transport::append_stream_record(record, transport::LinkRecordKind::end, kInputStream);
  static_cast<void>(to_.write(record));
}

}  // namespace nacre::launch
