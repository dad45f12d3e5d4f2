// SPDX-License-Identifier: Apache-2.0
//
// A connection to another shell of the job that has proved to be one: control frames, which wait for no bulk, and
// bulk in streams, each of which goes as far as its reader has granted credit. A Listener or a Dialer makes it.
//
// Control frames are whole, in order, and never behind bulk that was written after them; of the bulk that was written
// before, only what the sockets already hold (some 200 KB) goes first.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "transport/link_session.hpp"

namespace nacre::transport {

class Tls;

struct LinkLimits {
  ExchangeLimits exchange;
  event::Seconds linger{5};  // for how long the other end may take to close, once both have said all
};

class Link {
 public:
  // Called from the loop, never from within a call of a member. Each may call members, and destroy the link.
  struct Callbacks {
    std::function<void(std::string_view frame)> on_frame;
    std::function<void(StreamId, std::string_view bytes)> on_bulk;  // "": the stream's end, once
    // A stream whose last write() was not taken whole has room for so many bytes.
    std::function<void(StreamId, std::size_t room)> on_credit;
    // has_room() was false, and is true.
    std::function<void()> on_room;
    // The other end has said all; what is sent still reaches it. Unless set, this end finishes too.
    std::function<void()> on_finished;
    // The last of all, once. None: both ends have finished. Else one line that starts with the peer's address.
    std::function<void(const std::optional<Error>& why)> on_closed;
  };

  struct Start {
    UniqueFd socket;           // connected, non-blocking
    std::string peer;          // its address, for messages
    std::unique_ptr<Tls> tls;  // none: plain, on a Unix socket
    std::string received;      // plain bytes that came with the handshake
    std::string unsent;        // of the handshake
  };
  static Result<std::unique_ptr<Link>> create(event::Loop& loop, Start start, LinkLimits limits);
  ~Link();  // as abort()
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Nothing is read before. To be called once.
  void serve(Callbacks callbacks);

  Result<void> send(std::string_view frame);  // EMSGSIZE, ENOBUFS, EPIPE: see LinkSession
  // Whether few enough frames wait here that one more does not make others late.
  [[nodiscard]] bool has_room() const;
  // How many bytes were taken: as far as there is credit and room. If not all, on_credit says when to go on.
  std::size_t write(StreamId stream, std::string_view bytes);
  Result<void> end(StreamId stream);
  Result<void> grant(StreamId stream, std::size_t bytes);  // what the other end may send of a stream
  void finish();                                           // after all that was taken; then the other end's turn
  void abort();                                            // at once, and on_closed is not called

  [[nodiscard]] const std::string& peer() const;
  [[nodiscard]] bool is_closed() const;
  [[nodiscard]] std::size_t queued() const;  // bytes that wait here for the other end, of both kinds

 private:
  class Core;
  explicit Link(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace nacre::transport
