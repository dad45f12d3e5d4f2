// SPDX-License-Identifier: Apache-2.0
//
// The connection to one PMI client: a socket pair, of which the client has one end. What the client does not read
// is kept, and nothing more is read from it until it is sent: so a client takes a limited part of the shell's
// memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"

namespace nacre::plugins {

class PmiLink {
 public:
  using Received = std::function<void(std::string_view bytes)>;  // "": the end

  // The client's end, for the caller to pass on and close.
  Result<UniqueFd> open();
  [[nodiscard]] bool is_open() const { return static_cast<bool>(ours_); }
  Result<void> watch(event::Loop& loop, Received received);
  void drain();                   // passes on what has come, without waiting
  void drain_if_ended();          // the same up to its end, if the client has closed its end
  void send(std::string& bytes);  // takes all of it
  void close_when_sent();
  void close();

 private:
  void ready(int events);
  bool read_some();                    // returns whether there may be more
  void send_some(std::string& bytes);  // removes what was sent; everything if there is no reader any more
  void flush();

  UniqueFd ours_;
  std::optional<event::Poll> poll_;
  Received received_;
  std::string unsent_;
  bool closing_ = false;
};

}  // namespace nacre::plugins
