// SPDX-License-Identifier: Apache-2.0
//
// Looks up the addresses of a host's name while the loop runs on. A thread of its own calls getaddrinfo(3), which
// cannot be ended; if the answer is no longer needed the thread is left to end by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "transport/address.hpp"

namespace nacre::transport {

class Resolver {
 public:
  using Done = std::function<void(Result<std::vector<SocketAddress>>)>;  // at least one address

  // Calls `done` once, from the loop, unless the resolver is destroyed before. `done` may destroy it. ENOMEM: there
  // is no memory for the thread, or no right to another one.
  static Result<std::unique_ptr<Resolver>> create(event::Loop& loop, const std::string& host, std::uint16_t port,
                                                  Done done);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

 private:
  struct Question;
  explicit Resolver(Done done) : done_(std::move(done)) {}
  void answered();

  Done done_;
  Question* question_ = nullptr;  // shared with the thread: the last one of the two to leave frees it
  UniqueFd end_of_thread_;        // readable when there is an answer
  std::optional<event::Poll> poll_;
};

}  // namespace nacre::transport
