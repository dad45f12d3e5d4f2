// SPDX-License-Identifier: Apache-2.0
//
// The connection to one PMI client: a socket pair, of which the client has one end. What the client does not read is
// kept, and no more is read from it until that has gone: a client gets a bounded part of the shell's memory.
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

  // The client's end, to be passed on and then forgotten.
  Result<UniqueFd> open();
  [[nodiscard]] bool is_open() const { return static_cast<bool>(ours_); }
  Result<void> watch(event::Loop& loop, Received received);
  void drain();                   // calls back with what is there, without waiting
  void drain_if_ended();          // the same to its end, if the client has closed its own
  void send(std::string& bytes);  // takes what there is, all of it
  void close_when_sent();
  void close();

 private:
  void ready(int events);
  bool read_some();                    // whether there may be more
  void send_some(std::string& bytes);  // takes away what is sent, and all if nobody reads any more
  void flush();

  UniqueFd ours_;
  std::optional<event::Poll> poll_;
  Received received_;
  std::string unsent_;
  bool closing_ = false;
};

}  // namespace nacre::plugins
