// SPDX-License-Identifier: Apache-2.0
//
// The leader's end of one link to a front end, without descriptors and clock: it takes bytes and returns requests;
// it takes answers and events and returns bytes to be sent. Each request is answered once; while it is open it may
// have streams.
#pragma once

#include "control/message.hpp"

namespace nacre::control {

// The streams of one open request, on one side: how much data each side may still send, and which of the other
// side's streams have ended. Each side gives the other credit for all its streams of the request together; a frame
// of data costs as many bytes as it has, an empty one costs 1.

// Unused credit that a leader has given for one request: so at most 4 MiB of a link's input is held.
inline constexpr std::size_t kMaxGranted = std::size_t{256} << 10;
inline constexpr std::size_t kMaxStreams = 16;  // that one side may end, in one request

class RequestStreams {
 public:
  // `may_send`: the credit that came with the request.
  explicit RequestStreams(std::uint64_t may_send = 0) : may_send_(may_send) {}

  // ---- what this side sends
  void take_credit(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t may_send() const { return may_send_; }
  // False: the credit does not cover it, nothing has changed.
  bool send(std::size_t bytes);

  // ---- what this side receives
  void grant(std::uint64_t bytes) { granted_ += bytes; }
  [[nodiscard]] std::uint64_t granted() const { return granted_; }
  // EPROTO: the other side has sent more than it may, or to a stream that it has ended.
  Result<void> receive(const StreamData& data);
  Result<void> receive(const StreamEnd& end);

 private:
  std::uint64_t may_send_;
  std::uint64_t granted_ = 0;
  std::set<std::string, std::less<>> ended_;
};

// If more bytes than this wait to be sent no data is taken: it waits with its producer, for which a slow client has
// no room.
inline constexpr std::size_t kMaxUnsentData = std::size_t{128} << 10;

class Session {
 public:
  // Called by receive(), the last one by sent() too. They may call members, but not destroy the session. Only the
  // first one has to be set.
  struct Callbacks {
    std::function<void(const ControlRequest&)> on_request;
    std::function<void(StreamData)> on_data;  // within what was granted
    std::function<void(const StreamEnd&)> on_end;
    std::function<void(std::uint64_t id)> on_room;  // put() has returned false: it can be called again
  };

  Session(std::string version, Callbacks callbacks);

  // An error: the other side has broken the protocol, so the link has to be closed.
  Result<void> receive(std::string_view bytes);

  // Does nothing if no such request is open.
  void answer(std::uint64_t id, const Result<Json>& value);
  // Sends a part of the request's answer: others follow.
  void answer_part(std::uint64_t id, Json value);

  // ---- streams of an open request, until its answer; otherwise these do nothing
  // Sends at most kMaxStreamData bytes. False: there is no room, as the client has given no credit or does not take
  // what it is sent; nothing is sent, and on_room follows.
  bool put(const StreamData& data);
  [[nodiscard]] std::size_t room(std::uint64_t id) const;  // the bytes that put() takes now
  void put_end(const StreamEnd& end);
  // Lets the client send `bytes` more data; at most kMaxGranted bytes may be unused: what is beyond is not granted.
  void grant(std::uint64_t id, std::size_t bytes);

  // If more than kMaxEvents bytes wait to be sent the event is dropped; the next event that is sent says how many
  // were dropped.
  void notify(ControlEvent event);

  [[nodiscard]] bool is_greeted() const { return greeted_; }  // the client's hello has come
  [[nodiscard]] bool is_open(std::uint64_t id) const { return open_.contains(id); }
  [[nodiscard]] std::string_view output() const { return std::string_view(output_).substr(sent_); }
  void sent(std::size_t bytes);
  // The client takes too little of what is sent to it: the link has to be closed, and nothing is kept for it any
  // more.
  [[nodiscard]] bool is_full() const { return is_full_; }

 private:
  struct Open {
    RequestStreams streams;
    bool wants_room = false;
  };

  Result<void> take(const Json& frame);
  Result<void> take_request(const ControlRequest& request);
  void put_line(std::string_view line);
  [[nodiscard]] std::size_t unsent() const { return output_.size() - sent_; }
  [[nodiscard]] const RequestStreams* streams_of(std::uint64_t id) const;
  void offer_room(std::uint64_t id);

  Callbacks callbacks_;
  FrameReader reader_;
  bool greeted_ = false;
  bool is_full_ = false;
  std::map<std::uint64_t, Open> open_;
  std::uint64_t dropped_ = 0;  // events, since the last one that was sent
  std::string output_;
  std::size_t sent_ = 0;  // bytes of output_
};

}  // namespace nacre::control
