// SPDX-License-Identifier: Apache-2.0
//
// The leader's end of one link to a front end, without descriptors and clock: it takes bytes and returns requests; it takes
// answers and events and returns bytes to be sent. Each request is answered once.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "control/message.hpp"

namespace nacre::control {

class Session {
 public:
  // Called by receive(). It may call members, but not destroy the session.
  using OnRequest = std::function<void(const ControlRequest&)>;

  Session(std::string version, OnRequest on_request);

  // An error: the other side has broken the protocol, so the link has to be closed.
  Result<void> receive(std::string_view bytes);

  // Does nothing if no such request is open.
  void answer(std::uint64_t id, const Result<Json>& value);
  // Sends a part of its answer: others follow.
  void answer_part(std::uint64_t id, Json value);
  // If more than kMaxEvents bytes wait to be sent the event is dropped; the next event that is sent has the number of those.
  void notify(ControlEvent event);

  [[nodiscard]] bool is_greeted() const { return greeted_; }  // the client's hello has come
  [[nodiscard]] bool is_open(std::uint64_t id) const { return open_.contains(id); }
  [[nodiscard]] std::string_view output() const { return std::string_view(output_).substr(sent_); }
  void sent(std::size_t bytes);
  // The client takes too little of what is sent to it: the link has to be closed, and nothing is kept for it any more.
  [[nodiscard]] bool is_full() const { return is_full_; }

 private:
  Result<void> take(const Json& frame);
  void put(std::string_view line);

  OnRequest on_request_;
  FrameReader reader_;
  bool greeted_ = false;
  bool is_full_ = false;
  std::set<std::uint64_t> open_;
  std::uint64_t dropped_ = 0;  // events, since the last one that was sent
  std::string output_;
  std::size_t sent_ = 0;  // bytes of output_
};

}  // namespace nacre::control
