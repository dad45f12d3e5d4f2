// SPDX-License-Identifier: Apache-2.0
//
// Messages that wait to be handled. Any thread may put one in; a descriptor wakes the reader's loop.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "base/unique_fd.hpp"
#include "flux/message.hpp"

namespace nacre::flux {

class Inbox {
 public:
  static constexpr std::size_t kMaxMessages = 65536;

  static Result<std::unique_ptr<Inbox>> create();

  enum class End { head, tail };
  Result<void> put(MsgRef message, End end = End::tail);  // ENOBUFS when it is full
  void give_back(std::vector<MsgRef> taken);              // to its head, in their order, whatever its limit
  // The first message that matches; an empty reference: none.
  MsgRef take(const struct flux_match& match);
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] int fd() const { return signal_.get(); }  // readable while there is a message

 private:
  explicit Inbox(UniqueFd signal) : signal_(std::move(signal)) {}

  UniqueFd signal_;  // eventfd(2)
  mutable std::mutex mutex_;
  std::deque<MsgRef> messages_;
};

// Two handles in one process, interthread://NAME: each receives what the other sends.
struct InboxLink {
  std::string name;
  std::unique_ptr<Inbox> sides[2];
  int ends = 0;  // handles that were opened and not closed: at most two
};

}  // namespace nacre::flux
