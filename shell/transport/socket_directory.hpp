// SPDX-License-Identifier: Apache-2.0
//
// Where a shell's Unix socket lies: a directory of its user that nobody else may enter. Its name tells which host made it, as a
// Unix socket is of use on its own host only:
//
//   TMPDIR/nacre-HOST-XXXXXX/s      HOST: 16 hexadecimal digits: host_digits(), and eight of the id of its boot
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/owned_directory.hpp"
#include "base/result.hpp"

namespace nacre::transport {

class SocketDirectory {
 public:
  // Below `parent`, or below /tmp if there it cannot be made, or a socket's path would be too long or hold a blank.
  static Result<SocketDirectory> create(const std::string& parent);

  SocketDirectory(SocketDirectory&& other) noexcept : directory_(std::exchange(other.directory_, {})) {}
  SocketDirectory& operator=(SocketDirectory&& other) noexcept {
    std::swap(directory_, other.directory_);
    return *this;
  }
  ~SocketDirectory();  // removes it, if it is empty

  [[nodiscard]] const std::string& path() const { return directory_.path(); }
  [[nodiscard]] std::string socket() const { return path() + "/s"; }

 private:
  explicit SocketDirectory(OwnedDirectory directory) : directory_(std::move(directory)) {}
  OwnedDirectory directory_;
};

// HOST of this host.
[[nodiscard]] std::string host_mark();

// Of addresses that are joined by blanks those that a shell of the host `mark` can dial: without the Unix sockets that were
// made on other hosts.
[[nodiscard]] std::string usable_on(const std::string& mark, std::string_view addresses);

}  // namespace nacre::transport
