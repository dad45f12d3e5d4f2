// SPDX-License-Identifier: Apache-2.0
//
// A port of the node's loopback at which only processes of this shell's user get a connection: the user at the
// other end is looked up in the kernel's table of connections.
#pragma once

#include "base/unique_fd.hpp"
#include "event/loop.hpp"

namespace nacre::plugins {

class LoopbackPort : Noncopyable {
 public:
  struct Callbacks {
    std::function<std::size_t()> room;  // how many more connections may come now; called again each second while it
                                        // is 0
    std::function<void(UniqueFd connection)> connected;   // does not block, sends at once (TCP_NODELAY)
    std::function<void(const std::string& why)> refused;  // another user's connection, or one that refuse()
                                                          // refuses; each text once
  };
  // Port 0: any free port.
  static Result<std::unique_ptr<LoopbackPort>> open(event::Loop& loop, std::uint16_t port, Callbacks callbacks);

  [[nodiscard]] std::uint16_t number() const { return number_; }
  [[nodiscard]] std::string address() const { return fmt::format("127.0.0.1:{}", number_); }  // 127.0.0.1:PORT
  void look();  // takes what has come, without waiting
  void refuse(const std::string& why);

 private:
  explicit LoopbackPort(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  Result<void> listen(event::Loop& loop, std::uint16_t port);

  Callbacks callbacks_;
  UniqueFd socket_;
  std::uint16_t number_ = 0;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;  // while there is no room, or no descriptor, for more
  std::set<std::string> told_;
};

}  // namespace nacre::plugins
