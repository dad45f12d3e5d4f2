// SPDX-License-Identifier: Apache-2.0
//
// The directory of a shell's Unix socket, which no other user may enter. Its name has the host that made it, as a
// Unix socket is of use only on its own host:
//
//   TMPDIR/nacre-HOST-XXXXXX/s      HOST: 16 hexadecimal digits: host_digits(), and eight digits of the id of its
//                                   boot
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/owned_directory.hpp"
#include "base/result.hpp"

namespace nacre::transport {

class SocketDirectory {
 public:
  // Makes it below `parent`; below /tmp if that fails, or if a socket's path would be too long or hold a blank.
  static Result<SocketDirectory> create(const std::string& parent, const OwnedDirectory::Announce& announce = {});

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

// The HOST of this host.
[[nodiscard]] std::string host_mark();

// Of these addresses, which are joined by blanks, those that a shell on the host `mark` can dial: without the Unix
// sockets of other hosts.
[[nodiscard]] std::string usable_on(const std::string& mark, std::string_view addresses);

}  // namespace nacre::transport
