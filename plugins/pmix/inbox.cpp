// SPDX-License-Identifier: Apache-2.0
#include "inbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

namespace nacre::pmix {

std::unique_ptr<ReactorInbox> ReactorInbox::create(flux_reactor_t* reactor) {
  int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return nullptr;
  std::unique_ptr<ReactorInbox> inbox(new ReactorInbox(fd));
  auto ready = [](flux_reactor_t*, flux_watcher_t*, int, void* arg) { static_cast<ReactorInbox*>(arg)->read(); };
  inbox->watcher_ = flux_fd_watcher_create(reactor, fd, FLUX_POLLIN, ready, inbox.get());
  if (inbox->watcher_ == nullptr) return nullptr;
  flux_watcher_start(inbox->watcher_);
  flux_watcher_unref(inbox->watcher_);
  return inbox;
}

ReactorInbox::~ReactorInbox() {
  flux_watcher_destroy(watcher_);
  ::close(fd_);
}

void ReactorInbox::post(Letter letter) {
  {
    std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  ::eventfd_write(fd_, 1);
}

void ReactorInbox::read() {
  eventfd_t posted = 0;
  ::eventfd_read(fd_, &posted);
  std::vector<Letter> letters;
  {
    std::lock_guard lock(mutex_);
    letters.swap(letters_);
  }
  for (Letter& letter : letters) letter();
}

}  // namespace nacre::pmix
