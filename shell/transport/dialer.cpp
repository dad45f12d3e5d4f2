// SPDX-License-Identifier: Apache-2.0
#include "transport/dialer.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/signals_blocked.hpp"

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
                                   what, options_.time.count())};
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
  timer_->start_grace(options_.time);
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

}  // namespace nacre::transport
