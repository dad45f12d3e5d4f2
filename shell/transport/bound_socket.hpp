// SPDX-License-Identifier: Apache-2.0
//
// A socket on which other shells of the job can already connect, although nothing answers them until a Listener has
// it. So a shell can publish its address before it knows the job's secret.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::transport {

class BoundSocket {
 public:
  // On a numeric address or, if `host` is "", on all of them, IPv6 and IPv4 if the host has both. Port 0: any port.
  static Result<BoundSocket> tcp(const std::string& host, std::uint16_t port);
  // Makes the socket `path`, in a directory of this user that no other user may enter (mode 0700).
  static Result<BoundSocket> local(const std::string& path);

  BoundSocket(BoundSocket&&) noexcept = default;
  BoundSocket& operator=(BoundSocket&& other) noexcept;
  ~BoundSocket();  // removes a Unix socket's path

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }       // 0 for a Unix socket
  [[nodiscard]] const std::string& path() const { return path_; }  // "" for TCP

 private:
  BoundSocket(UniqueFd fd, std::uint16_t port, std::string path)
      : fd_(std::move(fd)), port_(port), path_(std::move(path)) {}

  UniqueFd fd_;
  std::uint16_t port_;
  std::string path_;
};

}  // namespace nacre::transport
