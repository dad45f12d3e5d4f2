// SPDX-License-Identifier: Apache-2.0
//
// The messages of a Flux instance as bytes (RFC 3), and how they follow each other on a broker's Unix socket (the
// "local" connector):
//
//   4 bytes  0xffee0012 in the host's order
//   4 bytes  the size of the message, the highest byte first
//   frames   each with its size before it: 1 byte, or 0xff and 4 bytes, the highest first: the ids of the route and
//            an empty frame if it is routed, the topic if there is one, the payload if there is one, and 20
//            bytes: 0x8e, the version 1, kind, flags, userid, rolemask, and two numbers with a meaning by kind
#pragma once

#include "base/result.hpp"

namespace nacre::broker {

inline constexpr std::uint32_t kAnyNode = 0xffffffff;
inline constexpr std::uint32_t kNoTag = 0;
inline constexpr std::uint32_t kNobody = 0xffffffff;  // a userid that the broker fills in
inline constexpr std::uint32_t kOwner = 1;            // a bit of the rolemask: the instance's owner has sent it

struct BrokerMessage {
  enum class Kind : std::uint8_t { request = 1, response = 2, event = 4, control = 8 };
  enum Flag : std::uint8_t {
    kNoResponse = 0x04,
    kUpstream = 0x10,
    kPrivate = 0x20,
    kStreaming = 0x40,
    kUser1 = 0x80
  };

  Kind kind = Kind::request;
  std::uint8_t flags = 0;                         // of Flag
  std::optional<std::vector<std::string>> route;  // the ids that were put on, the last one first
  std::optional<std::string> topic;
  std::optional<std::string> payload;  // text ends with a NUL
  std::uint32_t userid = kNobody;
  std::uint32_t rolemask = 0;
  std::uint32_t first = kAnyNode;  // a request's nodeid, a response's errnum, an event's sequence
  std::uint32_t tag = kNoTag;      // the matchtag of a request and its responses

  // The payload without its NUL; empty if there is none.
  [[nodiscard]] std::string_view text() const;
};

// Without the bytes that precede it on a socket.
[[nodiscard]] std::string encode(const BrokerMessage& message);
Result<BrokerMessage> decode(std::string_view bytes);

// With the bytes that precede it on a socket.
void append_framed(std::string& out, const BrokerMessage& message);

// The messages in what a socket has given.
class BrokerFrames {
 public:
  static constexpr std::size_t kMaxMessage = std::size_t{1} << 30;  // bytes

  void add(std::string_view bytes) { bytes_ += bytes; }
  Result<std::optional<BrokerMessage>> next();  // none: more bytes are needed. After an error there is no next one

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // of what has not been taken
};

}  // namespace nacre::broker
