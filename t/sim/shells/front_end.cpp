// SPDX-License-Identifier: Apache-2.0
#include "shells/front_end.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "value/idset.hpp"

namespace nacre::shells {
namespace {

constexpr std::uint64_t kRequest = 1;

std::string idset_of(const std::vector<std::uint32_t>& all) {
  value::Idset out;
  for (std::uint32_t each : all) out.insert(each);
  return out.str();
}

control::ControlRequest request_of(const Order& order) {
  control::ControlRequest out;
  out.id = kRequest;
  Json& with = out.arguments;
  switch (order.kind) {
    case Order::Kind::shrink:
      out.action = "shrink";
      with["grace"] = static_cast<double>(order.grace) / static_cast<double>(kSecond);
      order.count > 0 ? with["count"] = order.count : with["shells"] = idset_of(order.of);
      if (order.all) with["force"] = true;
      break;
    case Order::Kind::grow:
      out.action = "grow";
      with["count"] = order.count;
      with["all"] = order.all;
      break;
    case Order::Kind::kill:
      out.action = "signal";
      with["signal"] = order.signum;
      if (!order.of.empty()) with["ranks"] = idset_of(order.of);
      break;
    case Order::Kind::restart:
      out.action = "restart";
      if (!order.of.empty()) with["ranks"] = idset_of(order.of);
      break;
    case Order::Kind::look: out.action = order.what; break;
  }
  return out;
}

}  // namespace

FrontEnd::~FrontEnd() {
  if (fd_ >= 0) ::close(fd_);
}

void FrontEnd::go_on(const std::string& address) {
  if (is_over_) return;
  if (fd_ < 0) {
    if (kernel_.now() < due_) return;
    if (address.empty()) return miss();
    dial(address);
    if (fd_ < 0) return;
  }
  std::array<char, 16384> bytes{};
  for (;;) {
    ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      is_hung_up_ = true;
      return end();
    }
    reader_.append({bytes.data(), static_cast<std::size_t>(got)});
  }
  for (;;) {
    auto frame = reader_.next();
    if (!frame) broken_ = frame.error().message;
    if (!frame || !*frame) return;
    take(**frame);
  }
}

// If the leader does not accept the connection now it is tried again.
void FrontEnd::dial(const std::string& address) {
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, kOwnDescriptors);
  ::close(fd);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::strncpy(to.sun_path, address.c_str(), sizeof to.sun_path - 1);
  std::string hello = control::line_of(control::ControlHello{"simulated"});
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) < 0 ||
      ::send(fd_, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) {
    miss();
  }
}

// No leader is at the address in the list of jobs.
void FrontEnd::miss() {
  constexpr int kMost = 600;
  constexpr Nanoseconds kAgain = 100 * kMillisecond;
  if (!looks_again_ || ++looks_ > kMost) return end();
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  due_ = kernel_.now() + kAgain;
}

void FrontEnd::ask() {
  is_asked_ = true;
  asked_at_ = kernel_.now();
  kernel_.note("a front end", "asks for: " + text_of(order_));
  std::string line = control::line_of(request_of(order_));
  if (::send(fd_, line.data(), line.size(), MSG_NOSIGNAL) < 0) end();
}

void FrontEnd::take(const Json& frame) {
  if (!std::exchange(is_greeted_, true)) {
    auto hello = control::hello_of(frame);
    if (!hello) broken_ = hello.error().message;
    hello && !hello->error ? ask() : end();
    return;
  }
  auto message = control::from_leader(frame);
  if (!message) {
    broken_ = message.error().message;
    return;
  }
  if (const auto* answer = std::get_if<control::Answer>(&*message)) take_answer(*answer);
}

void FrontEnd::take_answer(const control::Answer& answer) {
  constexpr std::size_t kMostText = 200;
  std::string text = answer.error ? "error " + answer.error->message : answer.value.dump();
  kernel_.note("a front end",
               (answer.more ? "learns of " : "is answered: ") + text_of(order_) + ": " + text.substr(0, kMostText));
  if (answer.id != kRequest) broken_ = "an answer to a request that was not sent";
  if (!answer.more) ++answers_;
  is_refused_ = is_refused_ || answer.error;
  if (!answer.error) said_.push_back(answer.value);
}

std::string leader_address(const std::string& jobs) {
  std::error_code none;
  for (const auto& each : std::filesystem::directory_iterator(jobs, none)) {
    std::string name = each.path().filename();
    if (!name.ends_with(".json") || name.ends_with(".details.json")) continue;
    std::ifstream file(each.path());
    Json entry = Json::parse(file, nullptr, false);
    if (!entry.is_object() || entry.contains("end")) continue;
    std::string address = entry.value("address", "");
    constexpr std::string_view kUnix = "unix:";
    if (address.starts_with(kUnix)) return address.substr(kUnix.size());
  }
  return "";
}

}  // namespace nacre::shells
