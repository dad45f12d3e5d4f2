// SPDX-License-Identifier: Apache-2.0
#include "transport/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::transport {
namespace {

constexpr std::string_view kUnix = "unix:";

Error not_an_address(std::string_view text) {
  return invalid(fmt::format("expected HOST:PORT, [IPV6]:PORT or unix:PATH, got {}", in_quotes(text)));
}

sockaddr_in& as_in4(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in&>(storage); }
const sockaddr_in& as_in4(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in&>(storage); }
sockaddr_in6& as_in6(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in6&>(storage); }
const sockaddr_in6& as_in6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

std::string in6_text(const sockaddr_in6& address) {
  char buffer[INET6_ADDRSTRLEN] = "";
  std::uint16_t port = ntohs(address.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    ::inet_ntop(AF_INET, &address.sin6_addr.s6_addr[12], buffer, sizeof buffer);
    return fmt::format("{}:{}", buffer, port);
  }
  ::inet_ntop(AF_INET6, &address.sin6_addr, buffer, sizeof buffer);
  if (address.sin6_scope_id != 0) return fmt::format("[{}%{}]:{}", buffer, address.sin6_scope_id, port);
  return fmt::format("[{}]:{}", buffer, port);
}

}  // namespace

// ---- Address -------------------------------------------------------------------

Result<Address> Address::parse(std::string_view text) {
  Address address;
  if (text.starts_with(kUnix)) {
    address.path = text.substr(kUnix.size());
    if (address.path.empty()) return not_an_address(text);
    return address;
  }
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return not_an_address(text);
  std::string_view host = text.substr(0, colon);
  bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  auto port = parse_u64(text.substr(colon + 1));
  bool is_bare = !in_brackets && host.find_first_of(":[]") != std::string_view::npos;
  if (host.empty() || is_bare || !port || *port == 0 || *port > std::numeric_limits<std::uint16_t>::max()) {
    return not_an_address(text);
  }
  address.host = host;
  address.port = static_cast<std::uint16_t>(*port);
  return address;
}

std::string Address::text() const {
  if (is_unix()) return fmt::format("{}{}", kUnix, path);
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

// ---- SocketAddress ---------------------------------------------------------------

Result<SocketAddress> SocketAddress::from_path(const std::string& path) {
  SocketAddress out;
  auto& address = reinterpret_cast<sockaddr_un&>(out.storage_);
  if (path.size() >= sizeof address.sun_path) {
    return Error{ENAMETOOLONG, fmt::format("{}{}: {} bytes; the path of a socket has at most {}: use a shorter "
                                           "directory",
                                           kUnix, path, path.size(), sizeof address.sun_path - 1)};
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  out.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return out;
}

std::optional<SocketAddress> SocketAddress::from_numbers(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  SocketAddress out = from_raw(found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  out.set_port(port);
  return out;
}

SocketAddress SocketAddress::any(int family, std::uint16_t port) {
  SocketAddress out;
  out.storage_.ss_family = static_cast<sa_family_t>(family);
  out.size_ = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);  // all zeros means any address
  out.set_port(port);
  return out;
}

SocketAddress SocketAddress::from_raw(const sockaddr* address, socklen_t size) {
  SocketAddress out;
  out.size_ = std::min<socklen_t>(size, sizeof out.storage_);
  std::memcpy(&out.storage_, address, out.size_);
  return out;
}

SocketAddress SocketAddress::local_of(int socket) {
  SocketAddress out;
  out.size_ = sizeof out.storage_;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&out.storage_), &out.size_) < 0) out.size_ = 0;
  return out;
}

SocketAddress SocketAddress::peer_of(int socket) {
  SocketAddress out;
  out.size_ = sizeof out.storage_;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&out.storage_), &out.size_) < 0) out.size_ = 0;
  return out;
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET) as_in4(storage_).sin_port = htons(port);
  if (family() == AF_INET6) as_in6(storage_).sin6_port = htons(port);
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(as_in4(storage_).sin_port);
  if (family() == AF_INET6) return ntohs(as_in6(storage_).sin6_port);
  return 0;
}

std::string SocketAddress::text() const {
  if (size_ == 0) return "a peer that has gone";
  if (family() == AF_INET6) return in6_text(as_in6(storage_));
  if (family() == AF_INET) {
    char buffer[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &as_in4(storage_).sin_addr, buffer, sizeof buffer);
    return fmt::format("{}:{}", buffer, port());
  }
  const auto& local = reinterpret_cast<const sockaddr_un&>(storage_);
  std::size_t most = size_ > offsetof(sockaddr_un, sun_path) ? size_ - offsetof(sockaddr_un, sun_path) : 0;
  return fmt::format("{}{}", kUnix, std::string_view(local.sun_path, ::strnlen(local.sun_path, most)));
}

// ---- bound socket -----------------------------------------------------------------------

namespace {

constexpr int kBacklog = 1024;  // the kernel has its own limit, net.core.somaxconn

// For all interfaces: IPv6, which takes IPv4 too, or IPv4 if there is no IPv6.
Result<UniqueFd> bound_socket(const std::string& host, std::uint16_t port) {
  std::optional<SocketAddress> given;
  if (!host.empty()) {
    given = SocketAddress::from_numbers(host, port);
    if (!given) return invalid(fmt::format("{}: a shell listens on a numeric address, or on all", host));
  }
  Error why = invalid("no address family");
  for (int family : {AF_INET6, AF_INET}) {
    if (given && given->family() != family) continue;
    SocketAddress address = given ? *given : SocketAddress::any(family, port);
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int on = 1;
    int off = 0;
    if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket && family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (socket && ::bind(socket.get(), address.raw(), address.size()) == 0) return socket;
    why = system_error(errno, fmt::format("cannot listen on {}", address.text()));
  }
  return why;
}

Result<void> check_directory(const std::string& path) {
  std::size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  struct stat status {};
  if (::lstat(directory.c_str(), &status) < 0) return system_error(errno, directory);
  if (!S_ISDIR(status.st_mode)) return Error{ENOTDIR, directory + ": is no directory, as the job's sockets need"};
  if (status.st_uid == ::geteuid() && (status.st_mode & 077) == 0) return {};
  return Error{EPERM,
               fmt::format("{}: belongs to user {} and has mode {:04o}; the directory of the job's sockets has "
                           "to be user {}'s, with mode 0700",
                           directory, status.st_uid, status.st_mode & 07777U, ::geteuid())};
}

Result<void> listen_on(const UniqueFd& socket) {
  if (::listen(socket.get(), kBacklog) < 0) return system_error(errno, "cannot listen");
  return {};
}

}  // namespace

Result<BoundSocket> BoundSocket::tcp(const std::string& host, std::uint16_t port) {
  UniqueFd socket = TRY(bound_socket(host, port));
  CHECK_OK(listen_on(socket));
  std::uint16_t given = SocketAddress::local_of(socket.get()).port();
  return BoundSocket(std::move(socket), given, "");
}

Result<BoundSocket> BoundSocket::local(const std::string& path) {
  CHECK_OK(check_directory(path));
  SocketAddress address = TRY(SocketAddress::from_path(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error(errno, "cannot make a Unix socket");
  if (::bind(socket.get(), address.raw(), address.size()) < 0) {
    if (errno == EADDRINUSE)
      return Error{EADDRINUSE, path + ": is there already; remove it if its shell has ended"};
    return system_error(errno, path);
  }
  BoundSocket out(std::move(socket), 0, path);
  CHECK_OK(listen_on(out.fd_));
  return out;
}

BoundSocket& BoundSocket::operator=(BoundSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(port_, other.port_);
  std::swap(path_, other.path_);
  return *this;
}

BoundSocket::~BoundSocket() {
  if (fd_ && !path_.empty()) ::unlink(path_.c_str());
}

// ---- socket directory -------------------------------------------------------------------

namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::string_view kDirectoryPrefix = "nacre-";
constexpr std::size_t kMarkDigits = 16;

// After a boot the host counts as another one, as its sockets are gone.
const std::string& boot_digits() {
  static const std::string digits = digits_of(trim(read_file("/proc/sys/kernel/random/boot_id").value_or("")));
  return digits;
}

bool fits(const std::string& parent) {
  constexpr std::size_t kBehind = std::string_view("/nacre-0123456789abcdef-XXXXXX/s").size();
  bool plain = std::all_of(parent.begin(), parent.end(), [](char c) { return c > ' ' && c <= '~'; });
  return plain && parent.starts_with('/') && parent.size() + kBehind < sizeof(sockaddr_un::sun_path);
}

// Whether the socket's directory is named by this scheme, but for another host.
bool is_of_another(const std::string& mark, std::string_view path) {
  path = path.substr(0, path.rfind('/'));
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(kDirectoryPrefix)) return false;
  name.remove_prefix(kDirectoryPrefix.size());
  return name.size() > kMarkDigits && name[kMarkDigits] == '-' && name.substr(0, kMarkDigits) != mark;
}

}  // namespace

Result<SocketDirectory> SocketDirectory::create(const std::string& parent,
                                                const OwnedDirectory::Announce& announce) {
  Error why = invalid(parent + ": its path is too long for a socket's, or has other than printable characters");
  for (const std::string& each : {parent, std::string("/tmp")}) {
    if (!fits(each)) continue;
    auto made = OwnedDirectory::create(each, boot_digits(), announce);
    if (made) return SocketDirectory(*std::move(made));
    why = nacre::in("the directory of the job's socket", std::move(made).error());
  }
  return why;
}

SocketDirectory::~SocketDirectory() {
  if (!path().empty()) ::rmdir(path().c_str());
}

std::string host_mark() { return host_digits() + boot_digits(); }

std::string usable_on(const std::string& mark, std::string_view addresses) {
  std::string out;
  for (std::string_view each : split(addresses, ' ')) {
    bool foreign = each.starts_with(kUnixPrefix) && is_of_another(mark, each.substr(kUnixPrefix.size()));
    if (each.empty() || foreign) continue;
    if (!out.empty()) out += ' ';
    out += each;
  }
  return out;
}

// ---- agreed ports -----------------------------------------------------------------------

namespace {

// The first 8 bytes, highest first.
Result<std::uint64_t> derive(const Secret& secret, const std::string& purpose) {
  const std::string digits = TRY(secret.derive(purpose)).substr(0, 2 * sizeof(std::uint64_t));
  return std::stoull(digits, nullptr, 16);
}

}  // namespace

Result<std::vector<std::uint16_t>> agreed_ports(const Secret& secret, std::uint32_t rank) {
  constexpr std::uint64_t kCount = kLastAgreedPort - kFirstAgreedPort + 1;
  std::vector<std::uint16_t> ports;
  for (unsigned attempt = 0; ports.size() < kAgreedPorts; ++attempt) {
    std::uint64_t number = TRY(derive(secret, fmt::format("nacre port {} {}", rank, attempt)));
    auto port = static_cast<std::uint16_t>(kFirstAgreedPort + number % kCount);
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

Result<BoundSocket> bind_agreed(const std::vector<std::uint16_t>& ports) {
  std::string tried;
  for (std::uint16_t port : ports) {
    auto socket = BoundSocket::tcp("", port);
    if (socket || socket.error().code != EADDRINUSE) return socket;
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", port);
  }
  return Error{EADDRINUSE,
               fmt::format("the ports that the job's secret gives this shell are all taken ({}); start the job "
                           "again with a new secret, or by `nacre launch` or PMI, which need no agreed ports",
                           tried)};
}

}  // namespace nacre::transport
