// SPDX-License-Identifier: Apache-2.0
//
// The server by which a job's leader is reached: a Unix socket in a directory of its user
// (transport/address.hpp), and the links of the clients. It serves only this user and root, as the kernel
// identifies them. Nothing of it keeps the loop running.
#pragma once

#include "control/session.hpp"
#include "event/loop.hpp"
#include "transport/address.hpp"

namespace nacre::control {

class ControlServer : Noncopyable {
 public:
  static constexpr event::Seconds kHelloTime{10};  // how long the first line of a link may take

  using ClientId = std::uint64_t;  // never used twice
  struct Callbacks {
    // Called from the loop; it may call members, but not destroy the server. Each request has to be answered, now
    // or later.
    std::function<void(ClientId, const ControlRequest&)> on_request;
    std::function<void(ClientId)> on_gone;  // the client's requests need no answer any more
    // For a client's request with streams: see Session::Callbacks. They may be unset.
    std::function<void(ClientId, StreamData)> on_data = {};
    std::function<void(ClientId, const StreamEnd&)> on_end = {};
    std::function<void(ClientId, std::uint64_t id)> on_room = {};
    OwnedDirectory::Announce on_directory = {};  // of the socket; create() also calls it; may be unset
  };

  // Makes the socket's directory below `parent`, or else below /tmp.
  static Result<std::unique_ptr<ControlServer>> create(event::Loop& loop, std::string parent, std::string version,
                                                       Callbacks callbacks, event::Seconds hello_time = kHelloTime);

  [[nodiscard]] std::string address() const { return "unix:" + socket_->path(); }
  [[nodiscard]] const transport::SocketDirectory& directory() const { return *directory_; }
  [[nodiscard]] std::size_t clients() const { return clients_.size(); }

  // Makes the socket anew if somebody has removed it, and returns true if so: address() has changed then.
  Result<bool> restore();

  void answer(ClientId client, std::uint64_t id, const Result<Json>& value);
  void answer_part(ClientId client, std::uint64_t id, Json value);
  void notify(const ControlEvent& event);  // to all
  // The streams of a client's request: see the session's members of these names. If the client has gone they take
  // all.
  bool put(ClientId client, const StreamData& data);
  [[nodiscard]] std::size_t room(ClientId client, std::uint64_t id) const;
  void put_end(ClientId client, const StreamEnd& end);
  void grant(ClientId client, std::uint64_t id, std::size_t bytes);
  [[nodiscard]] bool flushed() const;
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }  // to all clients, so far

 private:
  struct Client {
    UniqueFd fd;
    Session session;
    double connected = 0;  // loop time
    std::optional<event::Poll> poll;
  };

  ControlServer(event::Loop& loop, std::string parent, std::string version, Callbacks callbacks,
                event::Seconds hello_time);
  Result<void> open();
  Result<void> listen();
  void accept_some();
  void add(UniqueFd fd);
  Session::Callbacks callbacks_of(ClientId id);
  void on_ready(ClientId id, int events);
  // They return false if the link has to be closed.
  static bool read_some(Client& client);
  bool write_some(Client& client);
  void await(ClientId id, Client& client);
  void drop(ClientId id);
  void drop_silent();
  void look_again_in(event::Seconds delay);  // at silent links; sooner, if that is set already

  event::Loop& loop_;
  std::string parent_;
  std::string version_;
  Callbacks callbacks_;
  event::Seconds hello_time_;
  std::optional<transport::SocketDirectory> directory_;
  std::optional<transport::BoundSocket> socket_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> hello_timer_;
  std::optional<double> looks_at_;  // loop time; none: the timer is not set
  std::map<ClientId, std::unique_ptr<Client>> clients_;
  std::uint64_t sent_bytes_ = 0;
  ClientId last_id_ = 0;
};

// Checks that the process on the other side of a Unix socket is this user's or root's. EPERM: the message names its
// user.
Result<void> check_peer(int socket);

}  // namespace nacre::control
