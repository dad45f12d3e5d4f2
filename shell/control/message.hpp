// SPDX-License-Identifier: Apache-2.0
//
// What the front end and the leader of a job send each other: lines, each one JSON object. doc/control.md has all of them.
//
//   hello     {"nacre": VERSION, "control": 1}          the first line of each side; with "error": the link is refused
//   request   {"id": N, "do": NAME, ...}                from the front end
//   answer    {"id": N, "ok": VALUE}                    one for each request; or
//             {"id": N, "error": {"code": ERRNO, "message": TEXT}}
//             {"id": N, "ok": VALUE, "more": true}      a part of an answer: others follow
//   event     {"timestamp": T, "name": NAME, "context": {...}}   from the leader, RFC 18
//
// Members that are not known are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.hpp"
#include "base/result.hpp"

namespace nacre::control {

inline constexpr int kProtocol = 1;
inline constexpr std::size_t kMaxFrame = std::size_t{1} << 20;  // bytes of a line, with its newline
inline constexpr std::size_t kMaxClients = 64;                  // links of a leader
inline constexpr std::size_t kMaxOpen = 16;                     // requests of a link that have no answer yet
// Bytes that a client has not taken yet: beyond kMaxEvents events are dropped, beyond kMaxUnsent the link is closed.
inline constexpr std::size_t kMaxEvents = std::size_t{1} << 20;
inline constexpr std::size_t kMaxUnsent = std::size_t{16} << 20;
inline constexpr std::uint64_t kMaxId = std::uint64_t{1} << 53;  // of a request

struct ControlHello {
  std::string version;
  std::optional<std::string> error = {};  // why the link is refused
  bool operator==(const ControlHello&) const = default;
};
struct ControlRequest {
  std::uint64_t id = 0;
  std::string action;
  Json arguments = Json::object();  // the other members
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

// With a newline.
[[nodiscard]] std::string line_of(const ControlHello& hello);
[[nodiscard]] std::string line_of(const ControlRequest& request);
[[nodiscard]] std::string line_of(const Answer& answer);
[[nodiscard]] std::string line_of(const ControlEvent& event);

// EINVAL: the message names what was expected.
Result<ControlHello> hello_of(const Json& frame);
Result<ControlRequest> request_of(const Json& frame);
Result<std::variant<Answer, ControlEvent>> from_leader(const Json& frame);

// Cuts a stream into frames. After an error the reader cannot be used any more.
class FrameReader {
 public:
  void append(std::string_view bytes) { unread_ += bytes; }
  // The next frame; none: it is not complete yet. EMSGSIZE: it is longer than kMaxFrame; EINVAL: it is not a JSON object.
  Result<std::optional<Json>> next();

 private:
  std::string unread_;
  std::size_t begin_ = 0;   // of what next() has not returned yet
  std::size_t looked_ = 0;  // before this position there is no newline
};

}  // namespace nacre::control
