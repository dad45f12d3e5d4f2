// SPDX-License-Identifier: Apache-2.0
//
// A front end's link to the leader of a job, for programs that wait for each answer: over the leader's Unix socket, or over
// any pair of streams that lead there. A call fails if the leader does not answer in time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "control/message.hpp"
#include "event/loop.hpp"

namespace nacre::control {

class Client {
 public:
  static constexpr event::Seconds kAnswerTime{5};

  // `address` is a unix:PATH. ECONNREFUSED, ENOENT: nobody listens there, or the leader refuses the link. EPERM: the leader
  // is another user's. ETIMEDOUT: it does not answer.
  static Result<Client> dial(const std::string& address, const std::string& version,
                             event::Seconds answer_time = kAnswerTime);
  // `from` and `to` may be duplicates of one descriptor. Each answer may take `answer_time`. If `to` is a pipe the caller has
  // to ignore SIGPIPE.
  static Result<Client> over(UniqueFd from, UniqueFd to, const std::string& version, event::Seconds answer_time);
  // Returns a connected socket, for a caller that copies its bytes.
  static Result<UniqueFd> connect(const std::string& address, event::Seconds answer_time = kAnswerTime);

  // Sends a request and waits for its answer. `take` is called with each part of an answer that comes in parts, the last one
  // included. ETIMEDOUT: no answer. ECONNRESET: the link has ended.
  using Take = std::function<void(const Json& part)>;
  Result<Json> ask(std::string_view action, Json arguments = Json::object(), const Take& take = {});
  // Waits for an event, up to a time of event::clock_now(), or for ever. None: the link has ended, or the time is over.
  Result<std::optional<ControlEvent>> next_event(std::optional<event::Seconds> until = std::nullopt);

 private:
  Client(UniqueFd from, UniqueFd to, event::Seconds answer_time)
      : from_(std::move(from)), to_(std::move(to)), answer_time_(answer_time) {}
  Result<void> greet(const std::string& version);
  Result<void> send(std::string_view bytes);
  // ETIMEDOUT, ECONNRESET.
  Result<Json> receive(std::optional<event::Seconds> until);

  UniqueFd from_, to_;
  event::Seconds answer_time_;
  FrameReader reader_;
  std::deque<ControlEvent> events_;
  std::uint64_t last_id_ = 0;
};

}  // namespace nacre::control
