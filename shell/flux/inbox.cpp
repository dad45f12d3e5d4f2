// SPDX-License-Identifier: Apache-2.0
#include "flux/inbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <iterator>

namespace nacre::flux {

Result<std::unique_ptr<Inbox>> Inbox::create() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return system_error(errno, "eventfd");
  return std::unique_ptr<Inbox>(new Inbox(std::move(fd)));
}

Result<void> Inbox::put(MsgRef message, End end) {
  std::lock_guard lock(mutex_);
  if (messages_.size() == kMaxMessages) return Error{ENOBUFS, "too many messages wait to be handled"};
  if (messages_.empty()) ::eventfd_write(signal_.get(), 1);
  if (end == End::head) {
    messages_.push_front(std::move(message));
  } else {
    messages_.push_back(std::move(message));
  }
  return {};
}

MsgRef Inbox::take(const struct flux_match& match) {
  std::lock_guard lock(mutex_);
  for (auto it = messages_.begin(); it != messages_.end(); ++it) {
    if (!flux_msg_cmp(it->get(), match)) continue;
    MsgRef found = std::move(*it);
    messages_.erase(it);
    eventfd_t count = 0;
    if (messages_.empty()) ::eventfd_read(signal_.get(), &count);
    return found;
  }
  return {};
}

void Inbox::give_back(std::vector<MsgRef> taken) {
  std::lock_guard lock(mutex_);
  if (messages_.empty() && !taken.empty()) ::eventfd_write(signal_.get(), 1);
  messages_.insert(messages_.begin(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end()));
}

std::size_t Inbox::size() const {
  std::lock_guard lock(mutex_);
  return messages_.size();
}

}  // namespace nacre::flux
