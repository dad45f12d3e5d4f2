// SPDX-License-Identifier: Apache-2.0
//
// Connects to the first of several addresses that is a shell of this job.
#pragma once

#include <cstddef>
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
#include "transport/credentials.hpp"
#include "transport/handshake.hpp"
#include "transport/link.hpp"

namespace nacre::transport {

// Looks up the addresses of a host's name while the loop runs on. A thread of its own calls getaddrinfo(3), which
// cannot be ended; if the answer is no longer needed the thread is left to end by itself.
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

class Dialer {
 public:
  struct Options {
    event::Seconds time{10};  // for each step: looking up a name; connecting; the handshake has its own limit
    HandshakeLimits handshake;
    LinkLimits link;
  };
  // The receiver serves or destroys the link. An error is one line that names each address that was tried and its
  // error. EMFILE, ENFILE: this process, or host, has no descriptor left; ENOMEM: no memory.
  using Done = std::function<void(Result<OwnedLink>)>;

  // Calls `done` once, from the loop, unless the dialler is destroyed before. `done` may destroy it.
  static Result<std::unique_ptr<Dialer>> create(event::Loop& loop, Credentials& credentials,
                                                std::vector<Address> addresses, const Options& options, Done done);
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

 private:
  Dialer(event::Loop& loop, Credentials& credentials, std::vector<Address> addresses, const Options& options,
         Done done);
  void next_address();
  void resolve(const Address& address);
  void next_candidate();
  Result<void> connect(const SocketAddress& address);
  void connected();
  void on_timer();
  void fail_candidate(Error why);
  void finish(Result<OwnedLink> result);

  event::Loop& loop_;
  Credentials& credentials_;
  std::vector<Address> addresses_;
  Options options_;
  Done done_;
  std::size_t at_ = 0;  // index of the next one in addresses_
  std::vector<SocketAddress> candidates_;
  std::size_t candidate_ = 0;  // index of the next one
  std::string target_;         // the address that is being tried, for messages
  std::string reasons_;
  int code_ = 0;
  UniqueFd socket_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<Handshake> handshake_;
};

}  // namespace nacre::transport
