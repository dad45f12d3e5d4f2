// SPDX-License-Identifier: Apache-2.0
//
// What only the shells of one job know: 32 random bytes. It is never part of an error or of a command line, and
// memory that held it is wiped. In files and over descriptors it is 64 hexadecimal digits and a newline.
//
// Libraries and buffers keep copies too, so a process that has ever had a secret leaves no core file, and only root
// may trace it (PR_SET_DUMPABLE), until it execs.
#pragma once

#include "base/result.hpp"

namespace nacre::transport {

class Secret {
 public:
  static constexpr std::size_t kSize = 32;  // bytes

  static Result<Secret> generate();
  static Result<Secret> from_hex(std::string_view text);  // blanks around it are allowed
  // The file has to be a regular one of this user that no other user may read or write (mode 0600 or 0400).
  static Result<Secret> from_file(const std::string& path);
  // The same; or what a Secret of Kubernetes looks like: it may be a link, and if it lies on a read-only mount,
  // root's or this user's that nobody else may write, as all within the pod are to read it.
  static Result<Secret> from_mounted_file(const std::string& path);
  // Reads one line, and nothing after its newline, which is for others.
  static Result<Secret> from_descriptor(int fd);

  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret() { ::explicit_bzero(bytes_.data(), bytes_.size()); }

  [[nodiscard]] Secret copy() const;
  [[nodiscard]] std::string hex() const;  // the caller wipes it with wipe()
  // HMAC-SHA-256 of the text `purpose`, in 64 hexadecimal digits: another secret, from which nobody can tell this
  // one.
  [[nodiscard]] Result<std::string> derive(std::string_view purpose) const;
  [[nodiscard]] const std::array<unsigned char, kSize>& bytes() const { return bytes_; }

 private:
  Secret();
  std::array<unsigned char, kSize> bytes_{};
};

// Overwrites the whole memory of `text`, and empties it.
void wipe(std::string& text);

// SHA-256 by libcrypto, which is loaded when the first digest is made.

// 32 bytes. An error: libcrypto cannot be loaded.
Result<std::string> sha256(std::string_view bytes);

}  // namespace nacre::transport
