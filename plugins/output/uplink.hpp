// SPDX-License-Identifier: Apache-2.0
//
// The way of this shell's output to the leader's, for the plugin `output`: it is sent in pieces of at most a bulk
// record, which wait here while there is no room.
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
  static constexpr std::size_t kQueue = std::size_t{1} << 20;  // it is full when so many bytes wait

  struct Callbacks {
    std::function<void()> on_room;                                // it is no longer full, or all has been sent
    std::function<void(io::Stream, const Error& why)> on_closed;  // what is written there is not taken any more
  };

  // It serves `port`, which has to outlive it.
  OutputUplink(bulk::Port& port, Callbacks callbacks);
  OutputUplink(const OutputUplink&) = delete;
  OutputUplink& operator=(const OutputUplink&) = delete;

  // Each write to one of these sinks has to be one record of io::WireFormat. The sinks must not outlive this
  // object.
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
  std::size_t queued_ = 0;         // bytes in it
  std::array<std::optional<Error>, io::kStreams.size()> failures_;
};

}  // namespace nacre::plugins
