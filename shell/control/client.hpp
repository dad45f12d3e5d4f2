// SPDX-License-Identifier: Apache-2.0
//
// A front end's link to the leader of a job: over the leader's Unix socket, or over any pair of streams that lead
// there. A program may wait for each answer: then a call fails if the leader does not answer in time. Or it begins
// requests that have streams, and polls: nothing waits then.
#pragma once

#include "base/unique_fd.hpp"
#include "control/message.hpp"
#include "control/session.hpp"
#include "event/loop.hpp"

namespace nacre::control {

class Client {
 public:
  static constexpr event::Seconds kAnswerTime{5};

  // `address` is a unix:PATH. ECONNREFUSED, ENOENT: nobody listens there, or the leader refuses the link. EPERM:
  // the leader is another user's. ETIMEDOUT: it does not answer.
  static Result<Client> dial(const std::string& address, const std::string& version,
                             event::Seconds answer_time = kAnswerTime);
  // `from` and `to` may be duplicates of one descriptor. Each answer may take `answer_time`. If `to` is a pipe the
  // caller has to ignore SIGPIPE.
  static Result<Client> over(UniqueFd from, UniqueFd to, const std::string& version, event::Seconds answer_time);
  // Returns a connected socket, for a caller that copies its bytes.
  static Result<UniqueFd> connect(const std::string& address, event::Seconds answer_time = kAnswerTime);

  // Sends a request and waits for its answer. `take` is called with each part of an answer that comes in parts, the
  // last one included. ETIMEDOUT: no answer. ECONNRESET: the link has ended.
  using Take = std::function<void(const Json& part)>;
  Result<Json> ask(std::string_view action, Json arguments = Json::object(), const Take& take = {});

  [[nodiscard]] event::Seconds answer_time() const { return answer_time_; }
  // For requests that take the leader longer than usual.
  void allow(event::Seconds answer_time) { answer_time_ = answer_time; }

  // Waits for an event, up to a time of event::clock_now(), or for ever. None: the link has ended, or the time is
  // over.
  Result<std::optional<ControlEvent>> next_event(std::optional<event::Seconds> until = std::nullopt);

  // ---- requests with streams: none of these waits
  // Returns the request's number. `credit`: bytes of data that the leader may send at first.
  std::uint64_t begin(std::string_view action, Json arguments = Json::object(), std::uint64_t credit = 0);
  // False: the leader has not given the credit for it yet; nothing is sent.
  bool put(const StreamData& data);
  [[nodiscard]] std::uint64_t may_send(std::uint64_t id) const;  // bytes
  void put_end(const StreamEnd& end) { unsent_ += line_of(end); }
  void grant(std::uint64_t id, std::uint64_t bytes);
  // Sends what waits, receives what has come. ECONNRESET: the link has ended; what came before can be taken all the
  // same.
  Result<void> exchange();
  // A frame that has been received; none: there is no other one. EPROTO, EINVAL, EMSGSIZE: the leader has broken
  // the protocol.
  Result<std::optional<FromLeader>> take();
  // What to poll before the next exchange(). They may be the same.
  [[nodiscard]] int receives_from() const { return from_.get(); }
  [[nodiscard]] int sends_to() const { return to_.get(); }
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }

 private:
  Client(UniqueFd from, UniqueFd to, event::Seconds answer_time)
      : from_(std::move(from)), to_(std::move(to)), answer_time_(answer_time) {}
  Result<void> greet(const std::string& version);
  // Waits until all that is unsent has gone. ETIMEDOUT, ECONNRESET.
  Result<void> send_all();
  Result<void> send_some();
  Result<void> receive_some();
  // ETIMEDOUT, ECONNRESET.
  Result<Json> receive(std::optional<event::Seconds> until);
  Result<FromLeader> checked(const Json& frame);

  UniqueFd from_, to_;
  event::Seconds answer_time_;
  FrameReader reader_;
  std::string unsent_;
  std::deque<FromLeader> kept_;  // frames that ask() and next_event() have not asked for
  std::map<std::uint64_t, RequestStreams> open_;
  std::uint64_t last_id_ = 0;
};

}  // namespace nacre::control
