// SPDX-License-Identifier: Apache-2.0
#include "broker/broker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"

namespace nacre::broker {
namespace {

constexpr std::string_view kScheme = "local://";
constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;

Error gone() { return Error{ECONNRESET, "the broker has closed the connection"}; }

// Until `fd` is ready for it: true; false: `timeout` seconds have passed.
Result<bool> wait_for(int fd, short events, double timeout) {
  pollfd one{fd, events, 0};
  int ready = 0;
  do {
    ready = ::poll(&one, 1, static_cast<int>(std::ceil(timeout * 1000)));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return system_error(errno, "poll");
  return ready > 0;
}

// The broker's first byte: 0, or the errno value of its refusal.
Result<void> shake_hands(int fd, double timeout) {
  if (!TRY(wait_for(fd, POLLIN, timeout)))
    return Error{ETIMEDOUT, fmt::format("the broker does not answer within {:g} s", timeout)};
  unsigned char code = 0;
  ssize_t got = ::read(fd, &code, 1);
  if (got < 0) return system_error(errno, "read");
  if (got == 0) return gone();
  if (code != 0) return Error{code, fmt::format("the broker refuses this process: {}", std::strerror(code))};
  return {};
}

Result<UniqueFd> dial(const std::string& path, double timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return invalid(fmt::format("longer than {} bytes", sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(errno, "socket");
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0)
    return system_error(errno, "no broker can be reached");
  CHECK_OK(shake_hands(fd.get(), timeout));
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

Error error_in(const BrokerMessage& response) {
  const std::string topic = response.topic.value_or("");
  const int code = static_cast<int>(response.first);
  std::string_view text = response.text();
  if (text.empty()) text = std::strerror(code);
  return Error{code, topic.empty() ? std::string(text) : fmt::format("{}: {}", topic, text)};
}

}  // namespace

BrokerMessage request_of(std::string_view topic, const Json& payload, std::uint32_t node) {
  BrokerMessage out;
  out.route.emplace();
  out.topic = topic;
  out.first = node;
  if (!payload.is_null()) out.payload = dump_json(payload) + '\0';
  return out;
}

BrokerMessage response_to(const BrokerMessage& request) {
  BrokerMessage out;
  out.kind = BrokerMessage::Kind::response;
  out.route = request.route;
  out.topic = request.topic;
  out.tag = request.tag;
  out.first = 0;
  out.flags = request.flags & (BrokerMessage::kStreaming | BrokerMessage::kPrivate);
  return out;
}

std::string sender_of(const BrokerMessage& request) {
  return request.route && !request.route->empty() ? request.route->back() : "";
}

Result<std::string> data_in(const JsonAt& io) {
  const JsonAt data = TRY(io.at("data"));
  std::string bytes = TRY(data.string());
  const auto encoding = TRY(io.find("encoding"));
  if (!encoding || encoding->json() == "UTF-8") return bytes;
  auto decoded = from_base64(bytes);
  if (!decoded) return data.expected("base64");
  return *std::move(decoded);
}

Result<Json> answer_of(const BrokerMessage& response) {
  if (response.first != 0) return error_in(response);
  if (response.text().empty()) return Json(Json::object());
  return in(response.topic.value_or(""), parse_json(response.text()));
}

Result<std::unique_ptr<Broker>> Broker::connect(std::string_view uri, double timeout) {
  if (!uri.starts_with(kScheme)) return invalid(fmt::format("expected {}PATH, got {}", kScheme, in_quotes(uri)));
  const std::string path(uri.substr(kScheme.size()));
  UniqueFd fd = TRY(in(path, dial(path, timeout)));
  return std::unique_ptr<Broker>(new Broker(std::move(fd), std::string(uri), timeout));
}

// ---- before there is a loop -------------------------------------------------------------

Result<BrokerMessage> Broker::await(const std::function<bool(std::uint32_t tag)>& wanted, double timeout) {
  auto is_it = [&](const BrokerMessage& each) {
    return each.kind == BrokerMessage::Kind::response && each.tag != kNoTag && wanted(each.tag);
  };
  const double end = event::clock_now().count() + timeout;
  for (;;) {
    CHECK_OK(write());
    auto found = std::find_if(received_.begin(), received_.end(), is_it);
    if (found != received_.end()) {
      BrokerMessage out = std::move(*found);
      received_.erase(found);
      return out;
    }
    const double left = end - event::clock_now().count();
    if (left <= 0) return Error{ETIMEDOUT, fmt::format("the broker does not answer within {:g} s", timeout)};
    const bool has_more = sent_ < unsent_.size();
    if (TRY(wait_for(fd_.get(), static_cast<short>(has_more ? POLLIN | POLLOUT : POLLIN), left))) CHECK_OK(read());
  }
}

Result<void> Broker::wait_for_response(const std::function<bool(std::uint32_t tag)>& wanted, double timeout) {
  if (lost_) return *lost_;
  auto response = await(wanted, timeout);
  if (!response && response.error().code != ETIMEDOUT) lose(response.error());
  if (!response) return response.error();
  // Ready for writing, as it is, it has the loop look at what else has come.
  if (poll_ && !received_.empty()) CHECK_OK(poll_->start(event::Poll::kReadable | event::Poll::kWritable));
  deliver_response(*response);
  return {};
}

Broker::Asked Broker::begin(std::string_view topic, const Json& payload) {
  return {send_request(request_of(topic, payload), nullptr), std::string(topic)};
}

Broker::Asked Broker::begin_stream(std::string_view topic, const Json& payload) {
  BrokerMessage request = request_of(topic, payload);
  request.flags |= BrokerMessage::kStreaming;
  return {send_request(std::move(request), nullptr), std::string(topic)};
}

Broker::Asked Broker::begin_raw(std::string_view topic, std::string payload) {
  BrokerMessage request = request_of(topic, nullptr);
  request.payload = std::move(payload);
  return {send_request(std::move(request), nullptr), std::string(topic)};
}

Result<std::optional<std::string>> Broker::raw_answer(const Asked& asked, double seconds) {
  auto response = await([&](std::uint32_t tag) { return tag == asked.tag; }, seconds);
  if (!response && response.error().code == ETIMEDOUT) return std::optional<std::string>();
  if (!response) return in(asked.topic, response.error());
  forget(asked.tag);
  if (response->first != 0) return error_in(*response);
  return std::optional(std::move(response->payload).value_or(""));
}

Result<Json> Broker::answer(const Asked& asked) {
  auto is_it = [&](std::uint32_t tag) { return tag == asked.tag; };
  const BrokerMessage response = TRY(in(asked.topic, await(is_it, timeout_)));
  if ((response.flags & BrokerMessage::kStreaming) == 0 || response.first != 0) forget(asked.tag);
  return answer_of(response);
}

void Broker::follow(const Asked& stream, std::function<void(Result<Json>)> on_response) {
  auto found = calls_.find(stream.tag);
  if (found == calls_.end()) return;
  found->second = [on_response = std::move(on_response)](const BrokerMessage& each) {
    on_response(answer_of(each));
  };
}

// ---- what comes and goes ----------------------------------------------------------------

Result<void> Broker::read() {
  HeapBuffer<kReadAtOnce> buffer;
  for (;;) {
    ssize_t got = ::read(fd_.get(), buffer.data(), kReadAtOnce);
    if (got == 0) return gone();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return system_error(errno, "the broker");
    frames_.add({buffer.data(), static_cast<std::size_t>(got)});
    if (static_cast<std::size_t>(got) < kReadAtOnce) break;
  }
  for (;;) {
    auto message = TRY(frames_.next());
    if (!message) return {};
    received_.push_back(*std::move(message));
  }
}

Result<void> Broker::write() {
  while (sent_ < unsent_.size()) {
    ssize_t put = ::send(fd_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return {};
    if (put < 0 && (errno == EPIPE || errno == ECONNRESET)) return gone();
    if (put < 0) return system_error(errno, "the broker");
    sent_ += static_cast<std::size_t>(put);
  }
  unsent_.clear();
  sent_ = 0;
  return {};
}

void Broker::send(const BrokerMessage& message) {
  if (lost_) return;
  append_framed(unsent_, message);
  if (!poll_) return;  // ask() sends it
  if (Result<void> sent = write(); !sent) return lose(sent.error());
  watch();
}

std::uint32_t Broker::send_request(BrokerMessage request, OnResponse on_response) {
  do {
    ++last_tag_;
  } while (last_tag_ == kNoTag || calls_.contains(last_tag_));
  request.tag = last_tag_;
  calls_.emplace(request.tag, std::move(on_response));
  if (lost_) {
    deliver_response([&] {
      BrokerMessage out = response_to(request);
      out.first = ECONNRESET;
      return out;
    }());
    return request.tag;
  }
  send(request);
  return request.tag;
}

namespace {

Broker::OnResponse answering(Broker::OnAnswer on_answer) {
  return [on_answer = std::move(on_answer)](const BrokerMessage& each) {
    if (on_answer) on_answer(answer_of(each));
  };
}

}  // namespace

std::uint32_t Broker::call(std::string_view topic, const Json& payload, OnAnswer on_answer, std::uint32_t node) {
  return send_request(request_of(topic, payload, node), answering(std::move(on_answer)));
}

std::uint32_t Broker::call_with_text(std::string_view topic, std::string payload, OnAnswer on_answer) {
  BrokerMessage request = request_of(topic, nullptr);
  payload += '\0';
  request.payload = std::move(payload);
  return send_request(std::move(request), answering(std::move(on_answer)));
}

void Broker::call_by_topic(std::string_view topic, const Json& payload, OnAnswer on_answer) {
  if (lost_) return on_answer(*lost_);
  BrokerMessage request = request_of(topic, payload);
  request.flags |= BrokerMessage::kNoResponse;
  by_topic_[std::string(topic)].push_back(std::move(on_answer));
  send(request);
}

void Broker::respond(const BrokerMessage& request, const Json& payload) {
  if ((request.flags & BrokerMessage::kNoResponse) != 0) return;
  BrokerMessage out = response_to(request);
  if (!payload.is_null()) out.payload = dump_json(payload) + '\0';
  send(out);
}

void Broker::respond_error(const BrokerMessage& request, int code, std::string_view why) {
  if ((request.flags & BrokerMessage::kNoResponse) != 0) return;
  BrokerMessage out = response_to(request);
  out.first = static_cast<std::uint32_t>(code);
  if (!why.empty()) out.payload = std::string(why) + '\0';
  send(out);
}

// ---- with the loop ----------------------------------------------------------------------

Result<void> Broker::attach(event::Loop& loop, Receivers receivers) {
  receivers_ = std::move(receivers);
  poll_ = TRY(event::Poll::create(loop, fd_.get(), [this](int events) { ready(events); }));
  poll_->keeps_running(false);
  CHECK_OK(poll_->start(event::Poll::kReadable | event::Poll::kWritable));
  return {};
}

std::optional<std::uint32_t> Broker::owner() const {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return std::nullopt;
  return peer.uid;
}

void Broker::detach() {
  receivers_ = {};
  when_sent_.clear();
  calls_.clear();
  by_topic_.clear();
  poll_.reset();
}

void Broker::watch() {
  const bool has_more = sent_ < unsent_.size();
  auto started = poll_->start(event::Poll::kReadable | (has_more ? event::Poll::kWritable : 0));
  if (!started) lose(started.error());
}

void Broker::ready(int events) {
  if (lost_) return;
  std::weak_ptr<bool> alive = alive_;
  Result<void> done = events == 0 ? Result<void>(gone()) : write();
  if (done) done = read();
  deliver();
  if (alive.expired() || lost_) return;
  if (!done) return lose(done.error());
  if (unsent() == 0) {
    for (auto& then : std::exchange(when_sent_, {})) {
      if (!alive.expired()) then();
    }
  }
  if (!alive.expired() && !lost_ && poll_) watch();
}

void Broker::deliver() {
  std::weak_ptr<bool> alive = alive_;
  while (!alive.expired() && !received_.empty()) {
    const BrokerMessage message = std::move(received_.front());
    received_.pop_front();
    if (message.kind == BrokerMessage::Kind::response) {
      deliver_response(message);
    } else if (message.kind == BrokerMessage::Kind::request && receivers_.on_request) {
      receivers_.on_request(message);
    } else if (message.kind == BrokerMessage::Kind::event && receivers_.on_event) {
      receivers_.on_event(message);
    }
  }
}

void Broker::deliver_response(const BrokerMessage& response) {
  if (response.tag == kNoTag) {
    auto found = by_topic_.find(response.topic.value_or(""));
    if (found == by_topic_.end() || found->second.empty()) return;
    OnAnswer take = std::move(found->second.front());
    found->second.pop_front();
    return take(answer_of(response));
  }
  auto found = calls_.find(response.tag);
  if (found == calls_.end()) return;
  const bool is_last = (response.flags & BrokerMessage::kStreaming) == 0 || response.first != 0;
  OnResponse take = is_last ? std::move(found->second) : found->second;
  if (is_last) calls_.erase(found);
  if (take) take(response);
}

void Broker::lose(const Error& why) {
  if (lost_) return;
  lost_ = why;
  if (poll_) poll_->stop();
  std::weak_ptr<bool> alive = alive_;
  auto calls = std::move(calls_);
  calls_.clear();
  auto by_topic = std::move(by_topic_);
  by_topic_.clear();
  BrokerMessage failed;
  failed.kind = BrokerMessage::Kind::response;
  failed.first = ECONNRESET;
  failed.payload = why.message + '\0';
  for (auto& [tag, take] : calls) {
    if (take && !alive.expired()) take(failed);
  }
  for (auto& [topic, takers] : by_topic) {
    for (auto& take : takers) {
      if (!alive.expired()) take(why);
    }
  }
  if (!alive.expired() && receivers_.on_lost) receivers_.on_lost(why);
}

void Broker::flush() {
  const double end = event::clock_now().count() + 1;
  while (!lost_ && sent_ < unsent_.size() && event::clock_now().count() < end) {
    if (!wait_for(fd_.get(), POLLOUT, 0.1).value_or(false)) continue;
    if (Result<void> sent = write(); !sent) return lose(sent.error());
  }
}

}  // namespace nacre::broker
