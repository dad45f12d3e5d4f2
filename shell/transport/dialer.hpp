// SPDX-License-Identifier: Apache-2.0
//
// Connects to the first of several addresses that is a shell of this job.
#pragma once

#include "event/loop.hpp"
#include "transport/address.hpp"
#include "transport/link.hpp"
#include "transport/secret.hpp"
#include "transport/tls.hpp"

namespace nacre::transport {

// What proves that this shell belongs to its job: the job's id and the secret. Outlives the links that are made
// with it.
class Credentials {
 public:
  // The id has 1 to TlsContext::kMaxJobId bytes, without blanks and control bytes.
  static Result<std::unique_ptr<Credentials>> create(std::string job_id, Secret secret);

  [[nodiscard]] const std::string& job_id() const { return job_id_; }
  [[nodiscard]] const Secret& secret() const { return secret_; }
  // Loads libssl at the first call. The reference is valid as long as the credentials.
  Result<TlsContext*> tls();

  // What both ends of a Unix socket send first: the version of the protocol and the job.
  [[nodiscard]] std::string greeting() const;
  // Whether `bytes`, the first ones from the other end, hold its whole greeting; an error if it is not this job's.
  [[nodiscard]] Result<bool> check_greeting(std::string_view bytes) const;

 private:
  Credentials(std::string job_id, Secret secret) : job_id_(std::move(job_id)), secret_(std::move(secret)) {}

  std::string job_id_;
  Secret secret_;
  std::unique_ptr<TlsContext> tls_;
};

// Does in advance what the first link over TCP has to do, mainly loading libssl: for a shell that waits for its
// secret. If it fails, the error is returned when that link is made.
void prepare_tls();

// A connection whose other end has yet to prove that it is of this job: by TLS over TCP; on a Unix socket by its
// user, which the kernel gives, and a greeting. Nothing that it sends reaches a Link before.
struct HandshakeLimits {
  event::Seconds time{10};
  std::size_t bytes =
      std::size_t{16} << 10;  // that the other end may send; the first bytes for the Link may be among them
};

class Handshake : Noncopyable {
 public:
  // An error is one line that starts with the peer's address.
  using Done = std::function<void(Result<OwnedLink>)>;

  // The socket is connected and non-blocking. Calls `done` once, from the loop; it may destroy the handshake.
  // create() fails if the other end is another user.
  static Result<std::unique_ptr<Handshake>> create(event::Loop& loop, UniqueFd socket, std::string peer, Role role,
                                                   Credentials& credentials, const HandshakeLimits& limits,
                                                   const LinkLimits& link_limits, Done done);

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

// Looks up the addresses of a host's name while the loop runs on. A thread of its own calls getaddrinfo(3), which
// cannot be ended; if the answer is no longer needed the thread is left to end by itself.
class Resolver : Noncopyable {
 public:
  using Done = std::function<void(Result<std::vector<SocketAddress>>)>;  // at least one address

  // Calls `done` once, from the loop, unless the resolver is destroyed before. `done` may destroy it. ENOMEM: there
  // is no memory for the thread, or no right to another one.
  static Result<std::unique_ptr<Resolver>> create(event::Loop& loop, const std::string& host, std::uint16_t port,
                                                  Done done);
  ~Resolver();

 private:
  struct Question;
  explicit Resolver(Done done) : done_(std::move(done)) {}
  void answered();

  Done done_;
  Question* question_ = nullptr;  // shared with the thread: the last one of the two to leave frees it
  UniqueFd end_of_thread_;        // readable when there is an answer
  std::optional<event::Poll> poll_;
};

class Dialer : Noncopyable {
 public:
  struct Options {
    event::Seconds time{10};    // for connecting; the handshake has its own limit
    event::Seconds lookup{10};  // for looking up a name
    HandshakeLimits handshake;
    LinkLimits link;
  };
  // The receiver serves or destroys the link. An error is one line that names each address that was tried and its
  // error. EMFILE, ENFILE: this process, or host, has no descriptor left; ENOMEM: no memory.
  using Done = std::function<void(Result<OwnedLink>)>;

  // Calls `done` once, from the loop, unless the dialler is destroyed before. `done` may destroy it.
  static Result<std::unique_ptr<Dialer>> create(event::Loop& loop, Credentials& credentials,
                                                std::vector<Address> addresses, const Options& options, Done done);

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

// Accepts the connections of other shells of the job. It keeps a bounded number of connections that have not proved
// to be of the job: when more come, the oldest is closed. Links that were handed out outlive it.
class Listener : Noncopyable {
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
