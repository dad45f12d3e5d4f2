// SPDX-License-Identifier: Apache-2.0
#include "plugins/loopback_port.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

constexpr event::Seconds kLookForRoom{1};
constexpr std::size_t kMaxTold = 32;  // texts

// The address as /proc/net/tcp writes it.
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

// The users of those ends of established connections whose other end is `ours`, by address. A client may connect by
// a socket of IPv6, as PyTorch's do; the table for IPv6 has IPv4 addresses behind a prefix.
Result<std::map<std::string, uid_t>> users_of(const std::string& ours) {
  constexpr std::string_view kEstablished = "01", kMapped = "0000000000000000FFFF0000";
  constexpr std::size_t kAddress = 1, kOther = 2, kState = 3, kUser = 7;
  // Without IPv6 there is no second table.
  const std::string table = TRY(read_file("/proc/net/tcp")) + read_file("/proc/net/tcp6").value_or("");
  std::map<std::string, uid_t> out;
  for (std::string_view line : split(table, '\n')) {
    std::vector<std::string_view> words;
    for (std::string_view word : split(line, ' ')) {
      if (word.starts_with(kMapped)) word.remove_prefix(kMapped.size());
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() <= kUser || words[kOther] != ours || words[kState] != kEstablished) continue;
    if (auto user = parse_u64(words[kUser])) out.emplace(words[kAddress], static_cast<uid_t>(*user));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<LoopbackPort>> LoopbackPort::open(event::Loop& loop, std::uint16_t port,
                                                         Callbacks callbacks) {
  std::unique_ptr<LoopbackPort> out(new LoopbackPort(std::move(callbacks)));
  CHECK_OK(out->listen(loop, port));
  return out;
}

Result<void> LoopbackPort::listen(event::Loop& loop, std::uint16_t port) {
  socket_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return system_error(errno, "cannot make a socket");
  constexpr int kOn = 1;  // so that connections of an earlier job that have just ended do not count
  if (port != 0) static_cast<void>(::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 ||
      ::listen(socket_.get(), SOMAXCONN) < 0) {
    const std::string where = port == 0 ? "127.0.0.1" : fmt::format("127.0.0.1:{}", port);
    return system_error(errno, "cannot listen on " + where);
  }
  number_ = ntohs(address_of(socket_.get(), false).sin_port);
  timer_ = TRY(event::Timer::create(loop, [this] {
    timer_->stop();
    static_cast<void>(poll_->start(event::Poll::kReadable));
  }));
  timer_->unref();
  poll_ = TRY(event::Poll::create(loop, socket_.get(), [this](int) { look(); }));
  poll_->keeps_running(false);
  return poll_->start(event::Poll::kReadable);
}

void LoopbackPort::refuse(const std::string& why) {
  if (told_.size() < kMaxTold && told_.insert(why).second) callbacks_.refused(why);
}

// The table is read once for all that have come.
void LoopbackPort::look() {
  std::vector<UniqueFd> come;
  const std::size_t room = callbacks_.room();
  bool is_full = room == 0;
  while (!is_full) {
    UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      come.push_back(std::move(fd));
      is_full = come.size() >= room;
    } else if (errno != ECONNABORTED && errno != EINTR) {
      is_full = errno == EMFILE || errno == ENFILE;
      break;
    }
  }
  if (is_full) {
    poll_->stop();
    timer_->start(kLookForRoom);
  }
  if (come.empty()) return;
  auto users = users_of(in_table(address_of(come.front().get(), false)));
  if (!users) return refuse(users.error().message);
  for (UniqueFd& fd : come) {
    auto user = users->find(in_table(address_of(fd.get(), true)));
    if (user != users->end() && user->second == ::geteuid()) {
      constexpr int kOn = 1;
      static_cast<void>(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn));
      callbacks_.connected(std::move(fd));
    } else if (user != users->end()) {
      refuse(fmt::format("user {} connects, and the job is that of user {}", user->second, ::geteuid()));
    } else {
      refuse("somebody connects of whom /proc/net/tcp does not say which user it is");
    }
  }
}

}  // namespace nacre::plugins
