// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/port.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMaxGuests = 1024;
constexpr std::size_t kMaxIntroduction = 4096;  // bytes
constexpr std::size_t kMaxTold = 32;            // lines in the log
constexpr double kGuestTime = 30;               // seconds in which it has to introduce itself
constexpr event::Seconds kLookAtTimes{1};

// As /proc/net/tcp has it.
std::string in_table(const sockaddr_in& address) {
  return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

sockaddr_in address_of(int socket, bool peer) {
  sockaddr_in out{};
  socklen_t size = sizeof out;
  auto* raw = reinterpret_cast<sockaddr*>(&out);
  static_cast<void>(peer ? ::getpeername(socket, raw, &size) : ::getsockname(socket, raw, &size));
  return out;
}

// The users of those ends of established connections whose other end is `ours`, by address.
Result<std::map<std::string, uid_t>> users_of(const std::string& ours) {
  constexpr std::string_view kEstablished = "01";
  constexpr std::size_t kAddress = 1, kOther = 2, kState = 3, kUser = 7;
  const std::string table = TRY(read_file("/proc/net/tcp"));
  std::map<std::string, uid_t> out;
  for (std::string_view line : split(table, '\n')) {
    std::vector<std::string_view> words;
    for (std::string_view word : split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() <= kUser || words[kOther] != ours || words[kState] != kEstablished) continue;
    if (auto user = parse_u64(words[kUser])) out.emplace(words[kAddress], static_cast<uid_t>(*user));
  }
  return out;
}

Result<std::int32_t> random_id() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    return system_error(errno, "no random bytes for PMI_ID");
  }
  return static_cast<std::int32_t>(number & INT32_MAX);
}

// A new connection has room for it.
void send_first(int fd, std::string_view text) {
  [[maybe_unused]] ssize_t sent = ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Result<std::unique_ptr<PmiPort>> PmiPort::open(event::Loop& loop, bool pmi2, Refused refused) {
  std::unique_ptr<PmiPort> out(new PmiPort(loop, pmi2, std::move(refused)));
  CHECK_OK(in("pmi.port", out->listen()));
  return out;
}

Result<void> PmiPort::listen() {
  socket_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return system_error(errno, "cannot make a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 ||
      ::listen(socket_.get(), SOMAXCONN) < 0) {
    return system_error(errno, "cannot listen on 127.0.0.1");
  }
  port_ = ntohs(address_of(socket_.get(), false).sin_port);
  address_ = fmt::format("127.0.0.1:{}", port_);
  timer_ = TRY(event::Timer::create(loop_, [this] { check_times(); }));
  timer_->unref();
  poll_ = TRY(event::Poll::create(loop_, socket_.get(), [this](int) { accept_all(); }));
  poll_->keeps_running(false);
  return poll_->start(event::Poll::kReadable);
}

Result<std::int32_t> PmiPort::expect(std::uint32_t rank, std::uint32_t size, Admit admit) {
  for (;;) {
    const std::int32_t id = TRY(random_id());
    if (expected_.try_emplace(id, Expected{rank, size, admit}).second) return id;
  }
}

// The table is read once for all that have come.
void PmiPort::accept_all() {
  std::vector<UniqueFd> come;
  while (guests_.size() + come.size() < kMaxGuests) {
    UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      come.push_back(std::move(fd));
    } else if (errno != ECONNABORTED && errno != EINTR) {
      break;
    }
  }
  if (guests_.size() + come.size() >= kMaxGuests || errno == EMFILE || errno == ENFILE) {
    poll_->stop();  // until check_times()
    timer_->start(kLookAtTimes, kLookAtTimes);
  }
  if (come.empty()) return;
  auto users = users_of(in_table(address_of(come.front().get(), false)));
  if (!users) return refuse(users.error().message);
  for (UniqueFd& fd : come) {
    auto user = users->find(in_table(address_of(fd.get(), true)));
    if (user != users->end() && user->second == ::geteuid()) {
      take_in(std::move(fd));
    } else if (user != users->end()) {
      refuse(fmt::format("user {} connects, and the job is that of user {}", user->second, ::geteuid()));
    } else {
      refuse("somebody connects of whom /proc/net/tcp does not say which user it is");
    }
  }
}

void PmiPort::take_in(UniqueFd fd) {
  constexpr int kOn = 1;
  static_cast<void>(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn));
  guests_.push_back({std::move(fd), loop_.now(), {}, {}, {}});
  const Place guest = std::prev(guests_.end());
  auto poll = event::Poll::create(loop_, guest->fd.get(), [this, guest](int) { read(guest); });
  if (!poll) {
    refuse(poll.error().message);
    return void(guests_.erase(guest));
  }
  guest->poll = *std::move(poll);
  guest->poll->keeps_running(false);
  static_cast<void>(guest->poll->start(event::Poll::kReadable));
  timer_->start(kLookAtTimes, kLookAtTimes);
}

void PmiPort::read(Place guest) {
  std::array<char, kMaxIntroduction> buffer;
  const ssize_t size = ::recv(guest->fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return void(guests_.erase(guest));
  guest->framer.add({buffer.data(), static_cast<std::size_t>(size)});
  Result<bool> is_done = understand(*guest);
  if (is_done && !*is_done && guest->framer.rest().size() < kMaxIntroduction) return;
  if (!is_done) refuse(is_done.error().message);
  if (is_done && !*is_done) refuse("a process connects, and gives no PMI_ID");
  guests_.erase(guest);
}

// Returns whether it is no guest any more.
Result<bool> PmiPort::understand(Guest& guest) {
  auto frame = TRY(in("a process connects", guest.framer.next()));
  if (!frame) return false;
  const bool is_body = frame->kind == pmi::Frame::Kind::body;
  auto message = TRY(in("a process connects", is_body ? pmi::PmiMessage::parse_body(frame->text)
                                                      : pmi::PmiMessage::parse_line(frame->text)));
  if (is_body) {
    const std::string body(frame->text);
    const char* key = message.find("srcid") ? "srcid" : "pmirank";
    return admit(guest, TRY(in("a process connects", message.integer(key))),
                 fmt::format("{}\n{:<6}{}{}", guest.greeting, body.size(), body, guest.framer.rest()));
  }
  if (message.command() == "init") return greet(guest, message);
  return admit(guest, TRY(in("a process connects", message.integer("pmiid"))), std::string(guest.framer.rest()));
}

// Its first line is that of PMI-2, which is answered before it says who it is.
Result<bool> PmiPort::greet(Guest& guest, const pmi::PmiMessage& message) {
  if (message.find("pmi_version") != "2" || !pmi2_) {
    send_first(guest.fd.get(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    return invalid("a process connects, and gives no PMI_ID in its first message");
  }
  guest.greeting = "cmd=init pmi_version=2 pmi_subversion=0";
  guest.framer.counted();
  send_first(guest.fd.get(), "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
  return understand(guest);
}

Result<bool> PmiPort::admit(Guest& guest, std::int64_t id, std::string said) {
  auto found = id >= 0 && id <= INT32_MAX ? expected_.extract(static_cast<std::int32_t>(id))
                                          : decltype(expected_)::node_type();
  if (!found) return invalid("a process connects whose PMI_ID is not that of one that may");
  guest.poll.reset();
  const bool is_greeted = !guest.greeting.empty();
  const Expected& expected = found.mapped();
  if (!is_greeted) {
    send_first(guest.fd.get(), fmt::format("cmd=initack rc=0\ncmd=set size={}\ncmd=set rank={}\ncmd=set debug=0\n",
                                           expected.size, expected.rank));
  }
  expected.admit(std::move(guest.fd), is_greeted, std::move(said));
  return true;
}

void PmiPort::look() {
  accept_all();
  for (auto guest = guests_.begin(); guest != guests_.end();) read(guest++);
}

void PmiPort::refuse(const std::string& why) {
  std::string line = fmt::format("PMI_PORT {}: {}: refused", address_, escape_controls(why));
  if (told_.size() < kMaxTold && told_.insert(line).second) refused_(line);
}

void PmiPort::check_times() {
  const std::size_t before = guests_.size();
  guests_.remove_if([this](const Guest& each) { return loop_.now() - each.since > kGuestTime; });
  if (guests_.size() < before) refuse("a process connects, and gives no PMI_ID");
  if (guests_.size() < kMaxGuests) static_cast<void>(poll_->start(event::Poll::kReadable));
  if (guests_.empty()) timer_->stop();
}

}  // namespace nacre::plugins
