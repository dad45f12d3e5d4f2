// SPDX-License-Identifier: Apache-2.0
//
// Accepts the connections of other shells of the job. It keeps a bounded number of connections that have not proved
// to be of the job: when more come, the oldest is closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "transport/bound_socket.hpp"
#include "transport/credentials.hpp"
#include "transport/handshake.hpp"
#include "transport/link.hpp"

namespace nacre::transport {

class Listener {
 public:
  struct Options {
    HandshakeLimits handshake;
    LinkLimits link;
    std::size_t max_pending = 128;  // connections that have not yet proved to be of the job
  };
  // Called from the loop; neither may destroy the listener.
  struct Callbacks {
    std::function<void(OwnedLink)> on_link;        // the receiver serves or destroys the link
    std::function<void(const Error&)> on_refused;  // one line, which starts with the peer; may be unset
  };

  static Result<std::unique_ptr<Listener>> create(event::Loop& loop, Credentials& credentials, BoundSocket socket,
                                                  const Options& options, Callbacks callbacks);
  // Links that were handed out outlive the listener.
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] std::uint16_t port() const { return socket_.port(); }  // 0 for a Unix socket
  // That have not yet proved to be of the job
  [[nodiscard]] std::size_t pending() const { return pending_.size(); }

 private:
  using Pending = std::list<std::unique_ptr<Handshake>>;
  Listener(event::Loop& loop, Credentials& credentials, BoundSocket socket, const Options& options,
           Callbacks callbacks);
  void accept_some();
  void add(UniqueFd socket);
  void drop_oldest(const char* why);
  void rest(int code);  // out of descriptors: accepts again later
  void refuse(const Error& why) const;

  event::Loop& loop_;
  Credentials& credentials_;
  BoundSocket socket_;
  Options options_;
  Callbacks callbacks_;
  Pending pending_;  // oldest first
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;
};

}  // namespace nacre::transport
