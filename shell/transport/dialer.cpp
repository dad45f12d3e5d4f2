// SPDX-License-Identifier: Apache-2.0
#include "transport/dialer.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "base/signals.hpp"
#include "base/text.hpp"

namespace nacre::transport {

Dialer::Dialer(event::Loop& loop, Credentials& credentials, std::vector<Address> addresses, const Options& options,
               Done done)
    : loop_(loop),
      credentials_(credentials),
      addresses_(std::move(addresses)),
      options_(options),
      done_(std::move(done)) {}

Result<std::unique_ptr<Dialer>> Dialer::create(event::Loop& loop, Credentials& credentials,
                                               std::vector<Address> addresses, const Options& options, Done done) {
  if (addresses.empty()) return invalid("no address to connect to");
  std::unique_ptr<Dialer> dialer(new Dialer(loop, credentials, std::move(addresses), options, std::move(done)));
  dialer->timer_ = TRY(event::Timer::create(loop, [raw = dialer.get()] { raw->on_timer(); }));
  dialer->timer_->start(event::Seconds::zero());
  return dialer;
}

void Dialer::on_timer() {
  if (target_.empty()) return next_address();  // the first turn
  const char* what = resolver_ ? "its name was not resolved" : "no connection";
  Error why{ETIMEDOUT, fmt::format("{}: timed out: {} within {} s; is the node up, and may it be reached?", target_,
                                   what, (resolver_ ? options_.lookup : options_.time).count())};
  resolver_.reset();
  fail_candidate(std::move(why));
}

void Dialer::next_address() {
  if (at_ == addresses_.size()) return finish(Error{code_, std::move(reasons_)});
  const Address& address = addresses_[at_++];
  target_ = address.text();
  candidates_.clear();
  candidate_ = 0;
  if (address.is_unix()) {
    Result<SocketAddress> path = SocketAddress::from_path(address.path);
    if (!path) return fail_candidate(Error(path.error()));
    candidates_.push_back(*path);
  } else if (auto numeric = SocketAddress::from_numbers(address.host, address.port)) {
    candidates_.push_back(*numeric);
  } else {
    return resolve(address);
  }
  next_candidate();
}

void Dialer::resolve(const Address& address) {
  timer_->start_grace(options_.lookup);
  auto done = [this](Result<std::vector<SocketAddress>> found) {
    std::unique_ptr<Resolver> over = std::move(resolver_);
    if (!found) return fail_candidate(in(target_, Error(found.error())));
    candidates_ = std::move(*found);
    next_candidate();
  };
  Result<std::unique_ptr<Resolver>> resolver = Resolver::create(loop_, address.host, address.port, std::move(done));
  if (!resolver) return fail_candidate(in(target_, Error(resolver.error())));
  resolver_ = std::move(*resolver);
}

void Dialer::next_candidate() {
  if (candidate_ == candidates_.size()) return next_address();
  const SocketAddress& address = candidates_[candidate_++];
  target_ = addresses_[at_ - 1].text();
  if (std::string numeric = address.text(); numeric != target_) target_ += fmt::format(" ({})", numeric);
  timer_->start_grace(options_.time);
  if (auto done = connect(address); !done) fail_candidate(Error(done.error()));
}

Result<void> Dialer::connect(const SocketAddress& address) {
  socket_ = UniqueFd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) return system_error(errno, target_);
  if (::connect(socket_.get(), address.raw(), address.size()) < 0 && errno != EINPROGRESS) {
    return system_error(errno, target_);
  }
  poll_ = TRY(in(target_, event::Poll::create(loop_, socket_.get(), [this](int) { connected(); })));
  return in(target_, poll_->start(event::Poll::kWritable));
}

void Dialer::connected() {
  int code = 0;
  socklen_t size = sizeof code;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  poll_.reset();
  if (code != 0) return fail_candidate(system_error(code, target_));
  timer_->stop();
  auto done = [this](Result<OwnedLink> link) {
    std::unique_ptr<Handshake> over = std::move(handshake_);  // it is in its own callback
    if (!link) return fail_candidate(Error(link.error()));
    finish(std::move(link));
  };
  auto handshake = Handshake::create(loop_, std::move(socket_), target_, Role::dials, credentials_,
                                     options_.handshake, options_.link, std::move(done));
  if (!handshake) return fail_candidate(Error(handshake.error()));
  handshake_ = std::move(*handshake);
}

void Dialer::fail_candidate(Error why) {
  timer_->stop();
  poll_.reset();
  socket_.reset();
  if (!reasons_.empty()) reasons_ += "; ";
  reasons_ += why.message;
  // "Refused" or "not there" only if it is so for all addresses: the addresses with other errors may be alive.
  bool refused = why.code == ECONNREFUSED || why.code == ENOENT;
  if (code_ == 0 || !refused) code_ = why.code;
  // The next address would need a descriptor or memory too.
  bool is_short = why.code == EMFILE || why.code == ENFILE || why.code == ENOMEM;
  if (is_short) return finish(Error{code_, std::move(reasons_)});
  next_candidate();
}

void Dialer::finish(Result<OwnedLink> result) {
  timer_->stop();
  Done done = std::move(done_);
  done(std::move(result));
}

// ---- resolver ---------------------------------------------------------------------------

namespace {

constexpr std::size_t kStack =
    // bytes, enough for the host's name services; the usual 8 MiB would count towards ulimit -v
    std::size_t{512} << 10;

}  // namespace

struct Resolver::Question {
  std::string host;
  std::uint16_t port = 0;
  UniqueFd end;  // of a pipe: closed when there is an answer
  Result<std::vector<SocketAddress>> answer = invalid("not asked");
  std::atomic<bool> left_by_one = false;

  void leave() {
    if (left_by_one.exchange(true)) delete this;
  }
  void ask();
};

void Resolver::Question::ask() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) {
    const char* why = code == EAI_SYSTEM ? "the resolver failed" : ::gai_strerror(code);
    answer = Error{EHOSTUNREACH, fmt::format("cannot find the address of host {}: {}", host, why)};
    return;
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    addresses.push_back(SocketAddress::from_raw(each->ai_addr, each->ai_addrlen));
    addresses.back().set_port(port);
  }
  ::freeaddrinfo(found);
  answer = std::move(addresses);
}

Result<std::unique_ptr<Resolver>> Resolver::create(event::Loop& loop, const std::string& host, std::uint16_t port,
                                                   Done done) {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  std::unique_ptr<Resolver> resolver(new Resolver(std::move(done)));
  resolver->end_of_thread_ = std::move(pipe.read);
  resolver->poll_ = TRY(
      event::Poll::create(loop, resolver->end_of_thread_.get(), [raw = resolver.get()](int) { raw->answered(); }));
  CHECK_OK(resolver->poll_->start(event::Poll::kReadable));

  auto question = std::make_unique<Question>();
  question->host = host;
  question->port = port;
  question->end = std::move(pipe.write);
  auto run = [](void* argument) -> void* {
    auto* asked = static_cast<Question*>(argument);
    asked->ask();
    UniqueFd end = std::move(asked->end);
    asked->leave();
    return nullptr;  // closes `end`, which wakes the loop
  };
  SignalsBlocked none;  // signals are for the first thread
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  ::pthread_attr_setstacksize(&attributes, kStack);
  int code = ::pthread_create(&thread, &attributes, run, question.get());
  ::pthread_attr_destroy(&attributes);
  if (code != 0) {
    Error why = system_error(code, fmt::format("cannot start a thread to look up {}", host));
    return Error{ENOMEM, why.message + " (raise the limits with ulimit -v and -u)"};
  }
  resolver->question_ = question.release();
  return resolver;
}

Resolver::~Resolver() {
  if (question_ != nullptr) question_->leave();
}

void Resolver::answered() {
  poll_.reset();
  Result<std::vector<SocketAddress>> answer = std::move(question_->answer);
  std::exchange(question_, nullptr)->leave();
  Done done = std::move(done_);
  done(std::move(answer));
}

// ---- listener ---------------------------------------------------------------------------

namespace {

constexpr int kAcceptsInARow = 64;    // then other descriptors have their turn
constexpr event::Seconds kRest{0.1};  // after running out of descriptors

}  // namespace

Listener::Listener(event::Loop& loop, Credentials& credentials, BoundSocket socket, const Options& options,
                   Callbacks callbacks)
    : loop_(loop),
      credentials_(credentials),
      socket_(std::move(socket)),
      options_(options),
      callbacks_(std::move(callbacks)) {}

Result<std::unique_ptr<Listener>> Listener::create(event::Loop& loop, Credentials& credentials, BoundSocket socket,
                                                   const Options& options, Callbacks callbacks) {
  // If libssl is missing this fails once, here, and not for each connection.
  if (socket.path().empty()) static_cast<void>(TRY(credentials.tls()));
  std::unique_ptr<Listener> out(new Listener(loop, credentials, std::move(socket), options, std::move(callbacks)));
  Listener& self = *out;
  self.poll_ = TRY(event::Poll::create(loop, self.socket_.fd(), [&self](int) { self.accept_some(); }));
  self.timer_ =
      TRY(event::Timer::create(loop, [&self] { static_cast<void>(self.poll_->start(event::Poll::kReadable)); }));
  CHECK_OK(self.poll_->start(event::Poll::kReadable));
  return out;
}

void Listener::accept_some() {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    UniqueFd socket(::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      add(std::move(socket));
      continue;
    }
    if (errno == EAGAIN) return;
    bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    // The kernel reports this before it looks for a connection, and only the first accept of an event is known to
    // have one.
    if (is_full && i > 0) return;
    if (is_full && pending_.empty()) return rest(errno);
    if (is_full) drop_oldest("dropped before it proved to be of this job: no descriptors are left");
    // Other errors are about the connection, which has gone.
  }
}

void Listener::add(UniqueFd socket) {
  SocketAddress address = SocketAddress::peer_of(socket.get());
  std::string peer = socket_.path().empty() ? address.text() : fmt::format("a client of unix:{}", socket_.path());
  auto place = pending_.emplace(pending_.end());
  auto done = [this, place](Result<OwnedLink> link) {
    std::unique_ptr<Handshake> over = std::move(*place);  // it is in its own callback
    pending_.erase(place);
    if (!link) return refuse(link.error());
    callbacks_.on_link(std::move(*link));
  };
  auto handshake = Handshake::create(loop_, std::move(socket), std::move(peer), Role::listens, credentials_,
                                     options_.handshake, options_.link, std::move(done));
  if (!handshake) {
    pending_.erase(place);
    return refuse(handshake.error());
  }
  *place = std::move(*handshake);
  if (pending_.size() > options_.max_pending) {
    drop_oldest("dropped, as too many others came before it proved to be of this job");
  }
}

void Listener::drop_oldest(const char* why) {
  std::unique_ptr<Handshake> oldest = std::move(pending_.front());
  pending_.pop_front();
  refuse(Error{EACCES, fmt::format("{}: {}", oldest->peer(), why)});
}

void Listener::rest(int code) {
  poll_->stop();
  timer_->start(kRest);
  refuse(system_error(code, "cannot accept a connection"));
}

void Listener::refuse(const Error& why) const {
  if (callbacks_.on_refused) callbacks_.on_refused(why);
}

// ---- handshake --------------------------------------------------------------------------

namespace {

constexpr std::size_t kHandshakeRead = 4096;  // bytes of one recv(2)

Result<void> check_user(int socket, const std::string& peer) {
  ucred other{};
  socklen_t size = sizeof other;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) < 0) {
    return system_error(errno, peer + ": the kernel does not give its user");
  }
  if (other.uid == ::geteuid()) return {};
  return Error{EACCES, fmt::format("{}: belongs to user {}; only shells of user {} are of this job", peer,
                                   other.uid, ::geteuid())};
}

}  // namespace

Handshake::Handshake(event::Loop& loop, UniqueFd socket, std::string peer, Role role, Credentials& credentials,
                     const HandshakeLimits& limits, const LinkLimits& link_limits, Done done)
    : loop_(loop),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      role_(role),
      credentials_(credentials),
      limits_(limits),
      link_limits_(link_limits),
      done_(std::move(done)) {}

Result<std::unique_ptr<Handshake>> Handshake::create(event::Loop& loop, UniqueFd socket, std::string peer,
                                                     Role role, Credentials& credentials,
                                                     const HandshakeLimits& limits, const LinkLimits& link_limits,
                                                     Done done) {
  std::unique_ptr<Handshake> made(new Handshake(loop, std::move(socket), std::move(peer), role, credentials, limits,
                                                link_limits, std::move(done)));
  CHECK_OK(made->begin());
  return made;
}

Result<void> Handshake::begin() {
  is_unix_ = SocketAddress::local_of(socket_.get()).family() == AF_UNIX;
  if (is_unix_) {
    CHECK_OK(check_user(socket_.get(), peer_));
    out_ = credentials_.greeting();
  } else if (role_ == Role::dials) {
    CHECK_OK(in(peer_, begin_tls()));
    static_cast<void>(TRY(in(peer_, step_tls())));  // the first bytes are the dialler's
  }
  poll_ = TRY(event::Poll::create(loop_, socket_.get(), [this](int) { on_events(); }));
  timer_ = TRY(event::Timer::create(loop_, [this] {
    fail(Error{ETIMEDOUT,
               fmt::format("timed out: it has not proved to be of this job within {} s; is it a shell, and "
                           "does it run?",
                           limits_.time.count())});
  }));
  timer_->start_grace(limits_.time);
  return poll_->start(event::Poll::kReadable | (out_.empty() ? 0 : event::Poll::kWritable));
}

// A listener starts TLS only when the first bytes have come: silent connections cost no more than their socket.
Result<void> Handshake::begin_tls() {
  tls_ = TRY(Tls::create(*TRY(credentials_.tls()), role_));
  return {};
}

void Handshake::on_events() {
  Result<bool> done = proceed();
  if (!done) return fail(Error(done.error()));
  if (*done) return succeed();
  // An error of the socket is found when it is read.
  static_cast<void>(poll_->start(event::Poll::kReadable | (out_.empty() ? 0 : event::Poll::kWritable)));
}

Result<bool> Handshake::proceed() {
  CHECK_OK(send_some());
  std::array<char, kHandshakeRead> buffer;
  for (;;) {
    std::size_t most = std::min(buffer.size(), limits_.bytes - std::min(taken_, limits_.bytes));
    if (most == 0) {
      return Error{EACCES,
                   fmt::format("has sent {} bytes without proving to be of this job: is it a shell?", taken_)};
    }
    ssize_t size = ::recv(socket_.get(), buffer.data(), most, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return false;
    if (size < 0) return system_error(errno, "the connection broke before it proved to be of this job");
    if (size == 0) {
      return Error{ECONNRESET, "hung up before it proved to be of this job; see the messages of its own shell"};
    }
    taken_ += static_cast<std::size_t>(size);
    bool done = TRY(take({buffer.data(), static_cast<std::size_t>(size)}));
    if (done) return true;
  }
}

Result<bool> Handshake::take(std::string_view bytes) {
  if (is_unix_) {
    received_ += bytes;
    return credentials_.check_greeting(received_);
  }
  if (!tls_) CHECK_OK(begin_tls());
  tls_->receive(bytes);
  bool done = TRY(step_tls());
  CHECK_OK(send_some());
  return done;
}

Result<bool> Handshake::step_tls() {
  Result<bool> done = tls_->handshake();
  tls_->take_output(out_);  // also after a failure: it carries the reason to the other end
  return done;
}

Result<void> Handshake::send_some() {
  while (!out_.empty()) {
    ssize_t size = ::send(socket_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return {};  // full, or gone; the next read finds out which
    out_.erase(0, static_cast<std::size_t>(size));
  }
  return {};
}

void Handshake::succeed() {
  poll_.reset();
  timer_.reset();
  if (is_unix_) received_.erase(0, credentials_.greeting().size());
  Result<OwnedLink> link = Link::create(
      loop_, {std::move(socket_), peer_, std::move(tls_), std::move(received_), std::move(out_)}, link_limits_);
  Done done = std::move(done_);
  done(std::move(link));
}

void Handshake::fail(Error why) {
  static_cast<void>(send_some());
  poll_.reset();
  timer_.reset();
  // If received bytes were left unread, close(2) would discard the reason that was just sent.
  std::array<char, kHandshakeRead> rest;
  ::shutdown(socket_.get(), SHUT_WR);
  for (int i = 0; i < 4 && ::recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0; ++i) {
  }
  socket_.reset();
  Result<OwnedLink> none = in(peer_, std::move(why));
  Done done = std::move(done_);
  done(std::move(none));
}

// ---- credentials ------------------------------------------------------------------------

namespace {

constexpr std::string_view kName = "nacre/";
constexpr std::string_view kVersion = "nacre/1 ";

bool is_visible(char byte) { return static_cast<unsigned char>(byte) > ' ' && byte != '\x7f'; }

}  // namespace

Result<std::unique_ptr<Credentials>> Credentials::create(std::string job_id, Secret secret) {
  if (job_id.empty() || job_id.size() > TlsContext::kMaxJobId ||
      !std::all_of(job_id.begin(), job_id.end(), is_visible)) {
    return invalid(fmt::format("{}: a job id for links has 1 to {} bytes, none of them a blank", in_quotes(job_id),
                               TlsContext::kMaxJobId));
  }
  return std::unique_ptr<Credentials>(new Credentials(std::move(job_id), std::move(secret)));
}

Result<TlsContext*> Credentials::tls() {
  if (!tls_) tls_ = TRY(TlsContext::create(job_id_, secret_));
  return tls_.get();
}

std::string Credentials::greeting() const { return fmt::format("{}{}\n", kVersion, job_id_); }

Result<bool> Credentials::check_greeting(std::string_view bytes) const {
  std::string expected = greeting();
  std::size_t common = std::min(bytes.size(), expected.size());
  if (bytes.substr(0, common) == std::string_view(expected).substr(0, common)) return common == expected.size();
  std::size_t end = bytes.find('\n');
  std::size_t named = std::min(bytes.size(), kName.size());
  if (bytes.substr(0, named) != kName.substr(0, named)) {
    return Error{EACCES, "does not speak nacre's protocol: is it a shell of this job?"};
  }
  if (end == std::string_view::npos) {
    // the whole line is needed for a clear error
    if (bytes.size() <= kVersion.size() + TlsContext::kMaxJobId) return false;
    return Error{EACCES, "does not speak nacre's protocol: is it a shell of this job?"};
  }
  std::string_view line = bytes.substr(0, end);
  if (!line.starts_with(kVersion)) {
    return Error{EPROTO, "speaks another version of nacre's protocol; install one version on all nodes"};
  }
  return Error{EACCES, fmt::format("is of another job, {}; this is {}", in_quotes(line.substr(kVersion.size())),
                                   in_quotes(job_id_))};
}

void prepare_tls() {
  auto secret = Secret::generate();
  if (!secret || !agreed_ports(*secret, 0)) return;
  auto context = TlsContext::create("-", *secret);
  if (!context) return;
  auto tls = Tls::create(**context, Role::dials);
  if (tls) static_cast<void>((*tls)->handshake());
}

}  // namespace nacre::transport
