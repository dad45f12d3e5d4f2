// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/uplink.hpp"

#include <algorithm>

#include "plugins/output/closed.hpp"

namespace nacre::plugins {
namespace {

class UplinkSink final : public io::Sink {
 public:
  UplinkSink(OutputUplink& uplink, io::Stream stream) : uplink_(uplink), stream_(stream) {}

  Result<void> write(std::span<const std::string_view> pieces) override {
    if (uplink_.failure(stream_)) return *uplink_.failure(stream_);
    uplink_.put(pieces);
    for (std::string_view piece : pieces) written_ += piece.size();
    return {};
  }
  [[nodiscard]] bool takes() override { return true; }
  [[nodiscard]] bool full() const override { return uplink_.full(); }
  [[nodiscard]] bool flushed() const override { return uplink_.flushed(); }
  [[nodiscard]] std::uint64_t written() const override { return written_; }
  [[nodiscard]] std::uint64_t taken() const override { return written_; }

 private:
  OutputUplink& uplink_;
  io::Stream stream_;
  std::uint64_t written_ = 0;
};

}  // namespace

OutputUplink::OutputUplink(bulk::Port& port, Callbacks callbacks) : port_(port), callbacks_(std::move(callbacks)) {
  bulk::Port::Upward upward;
  upward.on_room = [this] {
    bool was_full = full();
    send();
    if (was_full != full() || flushed()) callbacks_.on_room();
  };
  upward.on_end = [this](const Error& why) {
    for (io::Stream stream : io::kStreams) fail(stream, Error{EPIPE, why.message});
  };
  port_.serve(bulk::up::kOutput, std::move(upward));
  bulk::Port::Downward downward;
  downward.on_record = [this](bulk::Numbered number, std::string_view bytes) {
    if (auto stream = closed_stream(bytes)) fail(*stream, Error{EPIPE, "nobody reads the job's output any more"});
    port_.consumed(number);
  };
  port_.serve(bulk::down::kOutputClosed, std::move(downward));
}

std::unique_ptr<io::Sink> OutputUplink::sink(io::Stream stream) {
  return std::make_unique<UplinkSink>(*this, stream);
}

void OutputUplink::put(std::span<const std::string_view> record) {
  std::size_t size = 0;
  for (std::string_view piece : record) size += piece.size();
  bool fits = !queue_.empty() && queue_.back().size() + size <= bulk::kMaxRecord;
  if (!fits) queue_.emplace_back();
  for (std::string_view piece : record) append(piece);
  queued_ += size;
  send();
}

void OutputUplink::append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (queue_.back().size() == bulk::kMaxRecord) queue_.emplace_back();
    std::string_view part = bytes.substr(0, bulk::kMaxRecord - queue_.back().size());
    queue_.back() += part;
    bytes.remove_prefix(part.size());
  }
}

void OutputUplink::send() {
  while (!queue_.empty()) {
    Result<bool> sent = port_.put(bulk::up::kOutput, queue_.front());
    if (!sent) {
      for (io::Stream stream : io::kStreams) fail(stream, Error{EPIPE, sent.error().message});
      return;
    }
    if (!*sent) return;
    queued_ -= queue_.front().size();
    queue_.pop_front();
  }
}

void OutputUplink::fail(io::Stream stream, const Error& why) {
  auto& failure = failures_.at(static_cast<std::size_t>(stream));
  if (failure) return;
  failure = why;
  bool none_left =
      std::all_of(failures_.begin(), failures_.end(), [](const auto& each) { return each.has_value(); });
  if (none_left) {
    queue_.clear();
    queued_ = 0;
  }
  callbacks_.on_closed(stream, why);
}

}  // namespace nacre::plugins
