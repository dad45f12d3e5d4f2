// SPDX-License-Identifier: Apache-2.0
#include "transport/resolver.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "base/signals_blocked.hpp"

namespace nacre::transport {
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
