// SPDX-License-Identifier: Apache-2.0
//
// A connection whose other end has yet to prove that it is of this job: by TLS over TCP; on a Unix socket by its
// user, which the kernel gives, and a greeting. Nothing that it sends reaches a Link before.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "transport/credentials.hpp"
#include "transport/link.hpp"

namespace nacre::transport {

struct HandshakeLimits {
  event::Seconds time{10};
  std::size_t bytes =
      std::size_t{16} << 10;  // that the other end may send; the first bytes for the Link may be among them
};

class Handshake {
 public:
  // An error is one line that starts with the peer's address.
  using Done = std::function<void(Result<OwnedLink>)>;

  // The socket is connected and non-blocking. Calls `done` once, from the loop; it may destroy the handshake.
  // create() fails if the other end is another user.
  static Result<std::unique_ptr<Handshake>> create(event::Loop& loop, UniqueFd socket, std::string peer, Role role,
                                                   Credentials& credentials, const HandshakeLimits& limits,
                                                   const LinkLimits& link_limits, Done done);
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  [[nodiscard]] const std::string& peer() const { return peer_; }

 private:
  Handshake(event::Loop& loop, UniqueFd socket, std::string peer, Role role, Credentials& credentials,
            const HandshakeLimits& limits, const LinkLimits& link_limits, Done done);
  Result<void> begin();
  Result<void> begin_tls();
  void on_events();
  Result<bool> proceed();  // true: it is done
  Result<bool> take(std::string_view bytes);
  Result<bool> step_tls();
  Result<void> send_some();
  void succeed();
  void fail(Error why);

  event::Loop& loop_;
  UniqueFd socket_;
  std::string peer_;
  Role role_;
  Credentials& credentials_;
  HandshakeLimits limits_;
  LinkLimits link_limits_;
  Done done_;
  bool is_unix_ = false;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;
  std::unique_ptr<Tls> tls_;
  std::string received_;   // of a Unix socket
  std::size_t taken_ = 0;  // bytes read from the other end
  std::string out_;
};

}  // namespace nacre::transport
