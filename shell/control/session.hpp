// SPDX-License-Identifier: Apache-2.0
//
// One link of a front end, as the leader has it, without descriptors: bytes come in, requests come out; answers and events go
// in, bytes to be sent come out. Each request is answered once. Without clock.
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

  // An error: the other side does not keep to the protocol, so the link is to be ended.
  Result<void> receive(std::string_view bytes);

  // Nothing, if no such request is open.
  void answer(std::uint64_t id, const Result<Json>& value);
  // A part of its answer: others follow.
  void answer_part(std::uint64_t id, Json value);
  // Dropped, and counted in the next one, where more than kMaxEvents bytes wait.
  void notify(ControlEvent event);

  [[nodiscard]] bool is_greeted() const { return greeted_; }  // its hello has come
  [[nodiscard]] bool is_open(std::uint64_t id) const { return open_.contains(id); }
  [[nodiscard]] std::string_view output() const { return std::string_view(output_).substr(sent_); }
  void sent(std::size_t bytes);
  // It has taken too little of what was for it: the link is to be ended, and nothing is kept for it any more.
  [[nodiscard]] bool is_full() const { return is_full_; }

 private:
  Result<void> take(const Json& frame);
  void put(std::string_view line);

  OnRequest on_request_;
  FrameReader reader_;
  bool greeted_ = false;
  bool is_full_ = false;
  std::set<std::uint64_t> open_;
  std::uint64_t dropped_ = 0;  // events
  std::string output_;
  std::size_t sent_ = 0;  // of output_
};

}  // namespace nacre::control
