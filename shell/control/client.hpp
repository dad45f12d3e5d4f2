// SPDX-License-Identifier: Apache-2.0
//
// A front end's link to the leader of a job, for programs that wait for what they ask: over the leader's Unix socket, or over any
// pair of streams that lead there. Whoever does not answer in time is given up.
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

  // `address` is a unix:PATH. ECONNREFUSED, ENOENT: nobody is there. EPERM: it is another user's. ETIMEDOUT: it stands still.
  static Result<Client> dial(const std::string& address, const std::string& version,
                             event::Seconds patience = kAnswerTime);
  // `from` and `to` may be the same descriptor's duplicates. The first answer may take `patience`.
  static Result<Client> over(UniqueFd from, UniqueFd to, const std::string& version, event::Seconds patience);
  // A connected socket, for who copies its bytes.
  static Result<UniqueFd> connect(const std::string& address, event::Seconds patience = kAnswerTime);

  // Waits for its answer. Each part of one that comes in parts is given to `take`, and so is the last. ECONNRESET: the link has ended.
  using Take = std::function<void(const Json& part)>;
  Result<Json> ask(std::string_view action, Json arguments = Json::object(), const Take& take = {});
  // Waits for an event, until a time of event::clock_now(), or for ever. None: the link has ended, or the time is over.
  Result<std::optional<ControlEvent>> next_event(std::optional<event::Seconds> until = std::nullopt);

 private:
  Client(UniqueFd from, UniqueFd to, event::Seconds patience)
      : from_(std::move(from)), to_(std::move(to)), patience_(patience) {}
  Result<void> greet(const std::string& version);
  Result<void> send(std::string_view bytes);
  // ETIMEDOUT, ECONNRESET.
  Result<Json> receive(std::optional<event::Seconds> until);

  UniqueFd from_, to_;
  event::Seconds patience_;
  FrameReader reader_;
  std::deque<ControlEvent> events_;
  std::uint64_t last_id_ = 0;
};

}  // namespace nacre::control
