// SPDX-License-Identifier: Apache-2.0
#include "control/client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "control/server.hpp"
#include "event/clock.hpp"
#include "transport/address.hpp"

namespace nacre::control {
namespace {

constexpr std::size_t kClientReadAtOnce = std::size_t{64} << 10;

// A reader that has gone is an error, and no signal where a socket can be written to without one.
ssize_t write_quietly(int fd, std::string_view bytes) {
  ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno == ENOTSOCK) return ::write(fd, bytes.data(), bytes.size());
  return sent;
}

Error no_answer(event::Seconds answer_time) {
  return Error{ETIMEDOUT, fmt::format("it does not answer within {:g} s", answer_time.count())};
}

}  // namespace

Result<UniqueFd> Client::connect(const std::string& address, event::Seconds answer_time) {
  auto parsed = TRY(transport::Address::parse(address));
  if (!parsed.is_unix()) return invalid(fmt::format("{}: expected unix:PATH", address));
  auto to = TRY(transport::SocketAddress::from_path(parsed.path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(errno, "cannot make a Unix socket");
  // If the leader's queue of connections is full connect(2) waits: as long as for an answer.
  auto whole = static_cast<time_t>(answer_time.count());
  timeval most{whole, static_cast<suseconds_t>((answer_time.count() - static_cast<double>(whole)) * 1e6)};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
  if (::connect(fd.get(), to.raw(), to.size()) < 0) {
    if (errno == EAGAIN || errno == EINPROGRESS) return no_answer(answer_time);
    return system_error(errno, parsed.path);
  }
  CHECK_OK(check_peer(fd.get()));
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

Result<Client> Client::dial(const std::string& address, const std::string& version, event::Seconds answer_time) {
  UniqueFd from = TRY(connect(address, answer_time));
  UniqueFd to(::fcntl(from.get(), F_DUPFD_CLOEXEC, 0));
  if (!to) return system_error(errno, "cannot duplicate a descriptor");
  return over(std::move(from), std::move(to), version, answer_time);
}

Result<Client> Client::over(UniqueFd from, UniqueFd to, const std::string& version, event::Seconds answer_time) {
  ::fcntl(from.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(to.get(), F_SETFL, O_NONBLOCK);
  Client out(std::move(from), std::move(to), answer_time);
  CHECK_OK(out.greet(version));
  return out;
}

Result<void> Client::greet(const std::string& version) {
  // A leader that refuses this client closes the link at once: the reason is in what it has sent before.
  unsent_ = line_of(ControlHello{version});
  Result<void> sent = send_all();
  if (!sent && sent.error().code != ECONNRESET && sent.error().code != EPIPE) return sent;
  Json frame = TRY(receive(event::clock_now() + answer_time_));
  ControlHello hello = TRY(hello_of(frame));
  if (hello.error) return Error{ECONNREFUSED, *hello.error};
  return {};
}

Result<void> Client::send_some() {
  while (!unsent_.empty()) {
    ssize_t sent = write_quietly(to_.get(), unsent_);
    if (sent >= 0)
      unsent_.erase(0, static_cast<std::size_t>(sent));
    else if (errno == EAGAIN)
      return {};
    else if (errno != EINTR)
      return Error{ECONNRESET, "the link has ended"};
  }
  return {};
}

Result<void> Client::send_all() {
  event::Seconds until = event::clock_now() + answer_time_;
  for (;;) {
    CHECK_OK(send_some());
    if (unsent_.empty()) return {};
    if (!TRY(event::ready_by(to_.get(), POLLOUT, until))) return no_answer(answer_time_);
  }
}

Result<void> Client::receive_some() {
  HeapBuffer<kClientReadAtOnce> buffer;
  ssize_t got = ::read(from_.get(), buffer.data(), buffer.size());
  if (got > 0) reader_.append({buffer.data(), static_cast<std::size_t>(got)});
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return Error{ECONNRESET, "the link has ended"};
  return {};
}

Result<Json> Client::receive(std::optional<event::Seconds> until) {
  constexpr event::Seconds kLong{3600};
  for (;;) {
    auto frame = TRY(reader_.next());
    if (frame) return *std::move(frame);
    if (TRY(event::ready_by(from_.get(), POLLIN, until.value_or(event::clock_now() + kLong))))
      CHECK_OK(receive_some());
    else if (until)
      return no_answer(answer_time_);
  }
}

Result<FromLeader> Client::checked(const Json& frame) {
  FromLeader out = TRY(from_leader(frame));
  auto streams_of = [this](std::uint64_t id) -> Result<RequestStreams*> {
    auto found = open_.find(id);
    if (found == open_.end()) return Error{EPROTO, fmt::format("a frame of request {}, which is not open", id)};
    return &found->second;
  };
  if (auto* data = std::get_if<StreamData>(&out))
    CHECK_OK(TRY(streams_of(data->id))->receive(*data));
  else if (auto* end = std::get_if<StreamEnd>(&out))
    CHECK_OK(TRY(streams_of(end->id))->receive(*end));
  else if (auto* credit = std::get_if<StreamCredit>(&out))
    TRY(streams_of(credit->id))->take_credit(credit->bytes);
  else if (auto* answer = std::get_if<Answer>(&out); answer != nullptr && !answer->more)
    open_.erase(answer->id);
  return out;
}

Result<Json> Client::ask(std::string_view action, Json arguments, const Take& take) {
  ControlRequest request{++last_id_, std::string(action), std::move(arguments)};
  unsent_ += line_of(request);
  CHECK_OK(send_all());
  for (;;) {
    FromLeader got = TRY(checked(TRY(receive(event::clock_now() + answer_time_))));
    auto* answer = std::get_if<Answer>(&got);
    if (answer == nullptr || answer->id != request.id) {
      kept_.push_back(std::move(got));
      continue;
    }
    if (answer->error) return *std::move(answer->error);
    if (take) take(answer->value);
    if (!answer->more) return std::move(answer->value);
  }
}

Result<std::optional<ControlEvent>> Client::next_event(std::optional<event::Seconds> until) {
  auto is_event = [](const FromLeader& frame) { return std::holds_alternative<ControlEvent>(frame); };
  for (;;) {
    if (auto first = std::find_if(kept_.begin(), kept_.end(), is_event); first != kept_.end()) {
      ControlEvent out = std::get<ControlEvent>(std::move(*first));
      kept_.erase(first);
      return std::optional<ControlEvent>(std::move(out));
    }
    auto frame = receive(until);
    if (!frame) {
      bool is_over = frame.error().code == ECONNRESET || frame.error().code == ETIMEDOUT;
      if (is_over) return std::optional<ControlEvent>();
      return std::move(frame).error();
    }
    kept_.push_back(TRY(checked(*frame)));
  }
}

std::uint64_t Client::begin(std::string_view action, Json arguments, std::uint64_t credit) {
  ControlRequest request{++last_id_, std::string(action), std::move(arguments), credit};
  open_[request.id].grant(credit);
  unsent_ += line_of(request);
  return request.id;
}

bool Client::put(const StreamData& data) {
  auto found = open_.find(data.id);
  if (found == open_.end()) return true;  // its answer has come: nobody takes this any more
  if (!found->second.send(data.data.size())) return false;
  unsent_ += line_of(data);
  return true;
}

std::uint64_t Client::may_send(std::uint64_t id) const {
  auto found = open_.find(id);
  return found == open_.end() ? 0 : found->second.may_send();
}

void Client::grant(std::uint64_t id, std::uint64_t bytes) {
  auto found = open_.find(id);
  if (found == open_.end()) return;
  found->second.grant(bytes);
  unsent_ += line_of(StreamCredit{id, bytes});
}

Result<void> Client::exchange() {
  Result<void> sent = send_some();
  CHECK_OK(receive_some());
  return sent;
}

Result<std::optional<FromLeader>> Client::take() {
  if (!kept_.empty()) {
    FromLeader out = std::move(kept_.front());
    kept_.pop_front();
    return std::optional<FromLeader>(std::move(out));
  }
  auto frame = TRY(reader_.next());
  if (!frame) return std::optional<FromLeader>();
  return std::optional<FromLeader>(TRY(checked(*frame)));
}

}  // namespace nacre::control
