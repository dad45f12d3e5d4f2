// SPDX-License-Identifier: Apache-2.0
//
// A file descriptor that is closed at the end.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include "base/result.hpp"

namespace nacre {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// pipe2(2) with these flags.
Result<Pipe> make_pipe(int flags);

// Makes the kernel's table large enough for this many descriptors. It is to be called before there are threads:
// with them, each growth of the table, to 128, 256 and so on, waits 5 to 20 ms, for an RCU grace period. What
// cannot be had is left, as the table still grows when it has to.
void reserve_descriptors(rlim_t count);

// Closes all descriptors from this one on, by system calls only.
void close_from(unsigned first);

}  // namespace nacre
