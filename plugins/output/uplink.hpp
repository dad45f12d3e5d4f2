// SPDX-License-Identifier: Apache-2.0
//
// The way of this shell's output to the leader's, for the plugin `output`: what is written goes in pieces of at most a bulk
// record, and waits here while there is no room.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bulk/port.hpp"
#include "io/batch.hpp"
#include "io/sink.hpp"

namespace nacre::plugins {

class OutputUplink {
 public:
  static constexpr std::size_t kQueue = std::size_t{1} << 20;  // bytes that wait before it is full

  struct Callbacks {
    std::function<void()> on_room;  // it is full no longer, or all has gone on its way
    std::function<void(io::Stream, const Error& why)> on_closed;  // nobody takes what is written there any more
  };

  // `port` has to outlive it, and is served by it.
  OutputUplink(bulk::Port& port, Callbacks callbacks);
  OutputUplink(const OutputUplink&) = delete;
  OutputUplink& operator=(const OutputUplink&) = delete;

  // What is written to one of these sinks is one record of io::WireFormat each time. They must not outlive it.
  std::unique_ptr<io::Sink> sink(io::Stream stream);

  void put(std::span<const std::string_view> record);
  [[nodiscard]] bool full() const { return queued_ >= kQueue; }
  [[nodiscard]] bool flushed() const { return queue_.empty(); }
  [[nodiscard]] const std::optional<Error>& failure(io::Stream stream) const {
    return failures_.at(static_cast<std::size_t>(stream));
  }

 private:
  void append(std::string_view bytes);
  void send();
  void fail(io::Stream stream, const Error& why);

  bulk::Port& port_;
  Callbacks callbacks_;
  std::deque<std::string> queue_;  // each at most a bulk record
  std::size_t queued_ = 0;         // bytes of it
  std::array<std::optional<Error>, io::kStreams.size()> failures_;
};

}  // namespace nacre::plugins
