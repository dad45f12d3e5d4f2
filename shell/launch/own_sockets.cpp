// SPDX-License-Identifier: Apache-2.0
#include "launch/own_sockets.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "base/program.hpp"
#include "base/signals.hpp"
#include "transport/address.hpp"

namespace nacre::launch {
namespace {

// "" for an address that others cannot dial.
std::string numeric_text(const sockaddr* address) {
  char buffer[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const auto* in4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &in4->sin_addr, buffer, sizeof buffer);
    bool is_link_local = ntohl(in4->sin_addr.s_addr) >> 16 == 0xa9fe;
    return is_link_local ? "" : buffer;
  }
  if (address->sa_family != AF_INET6) return "";
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)) return "";
  ::inet_ntop(AF_INET6, &in6->sin6_addr, buffer, sizeof buffer);
  return buffer;
}

void append_address(std::string& out, const transport::Address& address) {
  std::string text = address.text();
  if (out.size() + 1 + text.size() > OwnSockets::kMaxText) return;
  if (!out.empty()) out += ' ';
  out += text;
}

void add_local_socket(const std::string& parent, OwnSockets& out) {
  EndingSignalsHeld held;
  auto directory = transport::SocketDirectory::create(parent);
  if (!directory) return;
  auto socket = transport::BoundSocket::local(directory->socket());
  if (!socket) return;
  remove_when_ended_early(directory->socket(), directory->path());
  append_address(out.address, {"", 0, socket->path()});
  out.directory = std::move(*directory);
  out.sockets.push_back(std::move(*socket));
}

}  // namespace

Result<OwnSockets> bind_own_sockets(const std::optional<std::string>& parent,
                                    const std::vector<std::uint16_t>& ports, HostNames names) {
  OwnSockets out;
  if (parent) add_local_socket(*parent, out);
  auto tcp = TRY(ports.empty() ? transport::BoundSocket::tcp("", 0) : transport::bind_agreed(ports));
  std::uint16_t port = tcp.port();
  out.sockets.push_back(std::move(tcp));
  std::string name = names == HostNames::none ? "" : own_host_name();
  if (!name.empty()) append_address(out.address, {name, port, ""});
  for (const std::string& each : numeric_addresses()) append_address(out.address, {each, port, ""});
  return out;
}

Result<OwnSockets> bind_local_sockets(const std::string& parent) {
  OwnSockets out;
  add_local_socket(parent, out);
  if (out.sockets.empty()) return bind_own_sockets(std::nullopt);
  return out;
}

void OwnSockets::move_to(group::Membership& membership) {
  membership.socket_directory = std::move(directory);
  membership.sockets = std::move(sockets);
  membership.address = std::move(address);
}

std::string own_host_name() {
  std::string name = host_name();
  bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~' && c != ':' && c != ','; });
  // Every host has these names, each for itself.
  bool is_nobodys = name == "localhost" || name.starts_with("localhost.") || name == "(none)";
  return plain && !is_nobodys && name.size() <= OwnSockets::kMaxHostName ? name : "";
}

std::vector<std::string> numeric_addresses(std::size_t most) {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) == 0) {
    for (const ifaddrs* each = all; each != nullptr && out.size() < most; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0)
        continue;
      std::string text = numeric_text(each->ifa_addr);
      if (!text.empty()) out.push_back(std::move(text));
    }
    ::freeifaddrs(all);
  }
  if (out.empty()) out.emplace_back("127.0.0.1");
  return out;
}

}  // namespace nacre::launch
