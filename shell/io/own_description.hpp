// SPDX-License-Identifier: Apache-2.0
//
// A private copy of a descriptor that is shared with other processes: it can be non-blocking without giving those
// EAGAIN.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::io {

// The same file, pipe or terminal, opened anew with these flags of open(2); none if that fails (see errno).
[[nodiscard]] UniqueFd reopen(int fd, int flags);

// A non-blocking descriptor of what `fd` is. If that cannot be opened anew, such as a socket, O_NONBLOCK is set for
// all that share it, and restored at the end.
class OwnDescription {
 public:
  // `access`: O_RDONLY or O_WRONLY. Errors name it `name`.
  static Result<OwnDescription> of(int fd, int access, const std::string& name);
  OwnDescription(OwnDescription&& other) noexcept
      : fd_(std::move(other.fd_)), shared_flags_(std::exchange(other.shared_flags_, std::nullopt)) {}
  OwnDescription& operator=(OwnDescription&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(shared_flags_, other.shared_flags_);
    return *this;
  }
  ~OwnDescription();

  [[nodiscard]] int get() const { return fd_.get(); }

 private:
  OwnDescription(UniqueFd fd, std::optional<int> shared_flags) : fd_(std::move(fd)), shared_flags_(shared_flags) {}

  UniqueFd fd_;
  std::optional<int> shared_flags_;  // to be restored
};

}  // namespace nacre::io
