// SPDX-License-Identifier: Apache-2.0
//
// While it lives, one of this process's standard streams is another descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "catch.hpp"

#include "base/unique_fd.hpp"

namespace nacre::kit {

class Redirected {
 public:
  // `to` may be closed afterwards; -1 leaves the stream as it is, for a test in which something else is put there.
  explicit Redirected(int stream, int to = -1) : stream_(stream), saved_(::fcntl(stream, F_DUPFD_CLOEXEC, 10)) {
    std::fflush(nullptr);
    if (to >= 0) REQUIRE(::dup2(to, stream) == stream);
  }
  ~Redirected() { saved_ ? ::dup2(saved_.get(), stream_) : ::close(stream_); }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int stream_;
  UniqueFd saved_;
};

}  // namespace nacre::kit
