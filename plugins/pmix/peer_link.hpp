// SPDX-License-Identifier: Apache-2.0
//
// The messages of the shells to each other, as events of the job. Each has the number of the start of the tasks
// that it is about; only those of the start that has begun here are passed on.
#pragma once

#include <cstdint>
#include <functional>

#include "flux.hpp"
#include "start_filter.hpp"

namespace nacre::pmix {

class PeerLink {
 public:
  using Receive = std::function<void(const PeerMessage& message)>;

  explicit PeerLink(flux_shell_t* shell) : shell_(shell) {}
  ~PeerLink() { close(); }
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  int listen();  // 0, or -1 with errno
  void close();  // receives nothing more

  // This start is to come, and its messages are kept until it begins here.
  void await(std::uint64_t start) { filter_.await(start); }
  void begin(std::uint64_t start, Receive receive);
  void send(PeerMessage message) const;  // about the start that has begun

 private:
  flux_shell_t* shell_;
  flux_msg_handler_t* handler_ = nullptr;
  StartFilter filter_;
  Receive receive_;
};

}  // namespace nacre::pmix
