// SPDX-License-Identifier: Apache-2.0
//
// What the front end and the leader of a job send each other: lines, each one JSON object. doc/control.md has all
// of them.
//
//   hello     {"nacre": VERSION, "control": 1}          the first line of each side; with "error": the link is
//                                                       refused
//   request   {"id": N, "do": NAME, ...}                from the front end
//   answer    {"id": N, "ok": VALUE}                    one for each request; or
//             {"id": N, "error": {"code": ERRNO, "message": TEXT}}
//             {"id": N, "ok": VALUE, "more": true}      a part of an answer: others follow
//   event     {"timestamp": T, "name": NAME, "context": {...}}   from the leader, RFC 18
//
// From both sides, for an open request:
//
//   data      {"id": N, "stream": NAME, "data": TEXT, ...}   or "base64" in place of "data", if it is no UTF-8
//   end       {"id": N, "stream": NAME, "eof": true}         of a stream
//   credit    {"id": N, "credit": BYTES}                     how much more data this side takes (session.hpp)
//
// Members that are not known are ignored.
#pragma once

#include "base/json.hpp"

namespace nacre::control {

inline constexpr int kProtocol = 1;
inline constexpr std::size_t kMaxFrame = std::size_t{1} << 20;  // bytes of a line, with its newline
inline constexpr std::size_t kMaxClients = 64;                  // links of a leader
inline constexpr std::size_t kMaxOpen = 16;                     // requests of a link that have no answer yet
// Bytes that a client has not taken yet: beyond kMaxEvents events are dropped, beyond kMaxUnsent the link is
// closed.
inline constexpr std::size_t kMaxEvents = std::size_t{1} << 20;
inline constexpr std::size_t kMaxUnsent = std::size_t{16} << 20;
inline constexpr std::uint64_t kMaxId = std::uint64_t{1} << 53;       // of a request
inline constexpr std::size_t kMaxStreamData = std::size_t{64} << 10;  // bytes of a frame of data, decoded
inline constexpr std::size_t kMaxStreamName = 32;                     // bytes
inline constexpr std::uint64_t kMaxCredit = std::uint64_t{1} << 53;   // bytes, in one request

struct ControlHello {
  std::string version;
  std::optional<std::string> error = {};  // why the link is refused
  bool operator==(const ControlHello&) const = default;
};
struct ControlRequest {
  std::uint64_t id = 0;
  std::string action;
  Json arguments = Json::object();  // the other members
  std::uint64_t credit = 0;         // bytes of data that the leader may send at first
  bool operator==(const ControlRequest&) const = default;
};
struct Answer {
  std::uint64_t id = 0;
  Json value;
  std::optional<Error> error = {};
  bool more = false;
};
struct ControlEvent {
  double timestamp = 0;
  std::string name;
  Json context = Json::object();
  bool operator==(const ControlEvent&) const = default;
};

struct StreamData {
  std::uint64_t id = 0;
  std::string stream;
  std::string data;               // any bytes
  Json members = Json::object();  // that the stream defines
  bool operator==(const StreamData&) const = default;
};
struct StreamEnd {
  std::uint64_t id = 0;
  std::string stream;
  bool operator==(const StreamEnd&) const = default;
};
struct StreamCredit {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  bool operator==(const StreamCredit&) const = default;
};
using FromLeader = std::variant<Answer, ControlEvent, StreamData, StreamEnd, StreamCredit>;
using FromFrontEnd = std::variant<ControlRequest, StreamData, StreamEnd, StreamCredit>;

// With a newline.
[[nodiscard]] std::string line_of(const ControlHello& hello);
[[nodiscard]] std::string line_of(const ControlRequest& request);
[[nodiscard]] std::string line_of(const Answer& answer);
[[nodiscard]] std::string line_of(const ControlEvent& event);
[[nodiscard]] std::string line_of(const StreamData& data);
[[nodiscard]] std::string line_of(const StreamEnd& end);
[[nodiscard]] std::string line_of(const StreamCredit& credit);

// EINVAL: the message names what was expected.
Result<ControlHello> hello_of(const Json& frame);
Result<ControlRequest> request_of(const Json& frame);
Result<FromLeader> from_leader(const Json& frame);
Result<FromFrontEnd> from_front_end(const Json& frame);

// Cuts a stream into frames. After an error the reader cannot be used any more.
class FrameReader {
 public:
  void append(std::string_view bytes) { unread_ += bytes; }
  // The next frame; none: it is not complete yet. EMSGSIZE: it is longer than kMaxFrame; EINVAL: it is not a JSON
  // object.
  Result<std::optional<Json>> next();

 private:
  std::string unread_;
  std::size_t begin_ = 0;   // where the bytes begin that next() has not returned yet
  std::size_t looked_ = 0;  // up to this position there is no newline
};

}  // namespace nacre::control
