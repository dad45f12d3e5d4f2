// SPDX-License-Identifier: Apache-2.0
//
// Standard input, output or error of this process is another file, as long as it lives.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace nacre::kit {

class Redirection {
 public:
  // `to` may be closed afterwards.
  Redirection(int fd, int to) : fd_(fd), saved_(::fcntl(fd, F_DUPFD_CLOEXEC, 3)) {
    std::fflush(nullptr);
    ::dup2(to, fd);
  }
  ~Redirection() {
    if (saved_) {
      ::dup2(saved_.get(), fd_);
    } else {
      ::close(fd_);
    }
  }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;

 private:
  int fd_;
  UniqueFd saved_;
};

}  // namespace nacre::kit
