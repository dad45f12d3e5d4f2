// SPDX-License-Identifier: Apache-2.0
#include "transport/socket_directory.hpp"

#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::transport {
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

}  // namespace nacre::transport
