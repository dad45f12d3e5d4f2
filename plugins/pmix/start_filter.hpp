// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a job may start again, all of them together: then PMIx begins anew, and what shells have sent about
// a former start is of no use to the next. Shells begin a start one after the other, so messages about it may come
// before this shell has begun it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "peer_message.hpp"

namespace nacre::pmix {

class StartFilter {
 public:
  // The message itself, if it is about the start that has begun. One about a start to come is kept, one about a
  // former start is dropped.
  std::optional<PeerMessage> pass(PeerMessage message);

  // This start is to come: what is about those before it is dropped, but not what is about the one that has begun.
  void await(std::uint64_t start);
  // It begins here. Returns what has been kept of it, in the order in which it came.
  std::vector<PeerMessage> begin(std::uint64_t start);

  [[nodiscard]] std::uint64_t current() const { return current_; }  // 0: none has begun

 private:
  std::uint64_t current_ = 0;
  std::uint64_t next_ = 1;  // the lowest of those to come
  std::vector<PeerMessage> kept_;
};

}  // namespace nacre::pmix
