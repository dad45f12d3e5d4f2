// SPDX-License-Identifier: Apache-2.0
//
// The streams of one open request as one side has them: how much data each side may still send, and which of the
// other side's streams have ended. Each side gives the other credit for all its streams of the request together; a
// frame of data costs as many bytes as it has, an empty one costs 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "control/message.hpp"

namespace nacre::control {

// Credit that a leader has given and that is not used, of a request: so at most 4 MiB of a link's input is held.
inline constexpr std::size_t kMaxGranted = std::size_t{256} << 10;
inline constexpr std::size_t kMaxStreams = 16;  // that one side may end, of a request

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

}  // namespace nacre::control
