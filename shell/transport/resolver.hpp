// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a host's name, without the loop waiting for them. A thread of its own asks, and is left alone if
// nobody wants its answer any more: getaddrinfo(3) cannot be ended.
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

  // Calls `done` once, from the loop, unless the resolver is destroyed before. `done` may destroy it. ENOMEM: there is no memory
  // for the thread, or no right to one more.
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
  Question* question_ = nullptr;  // shared with the thread: who is last to leave it frees it
  UniqueFd end_of_thread_;        // readable when there is an answer
  std::optional<event::Poll> poll_;
};

}  // namespace nacre::transport
