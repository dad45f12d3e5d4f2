// SPDX-License-Identifier: Apache-2.0
#include "transport/socket_directory.hpp"

#include <limits.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::transport {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::string_view kDirectoryPrefix = "nacre-";
constexpr std::size_t kMarkDigits = 16;

// FNV-1a: only to tell hosts apart, not to keep anybody out.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

bool fits(const std::string& parent) {
  constexpr std::size_t kBehind = std::string_view("/nacre-0123456789abcdef-XXXXXX/s").size();
  bool plain = std::all_of(parent.begin(), parent.end(), [](char c) { return c > ' ' && c <= '~'; });
  return plain && parent.starts_with('/') && parent.size() + kBehind < sizeof(sockaddr_un::sun_path);
}

// Whether the socket's directory is named by this scheme, and for another host.
bool is_of_another(const std::string& mark, std::string_view path) {
  path = path.substr(0, path.rfind('/'));
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(kDirectoryPrefix)) return false;
  name.remove_prefix(kDirectoryPrefix.size());
  return name.size() > kMarkDigits && name[kMarkDigits] == '-' && name.substr(0, kMarkDigits) != mark;
}

}  // namespace

Result<SocketDirectory> SocketDirectory::create(const std::string& parent) {
  Error why = invalid(parent + ": its path is too long for a socket's, or has other than printable characters");
  for (const std::string& each : {parent, std::string("/tmp")}) {
    if (!fits(each)) continue;
    std::string path = fmt::format("{}/{}{}-XXXXXX", each, kDirectoryPrefix, host_mark());
    if (::mkdtemp(path.data()) != nullptr) return SocketDirectory(std::move(path));
    why = system_error(errno, "cannot make a directory for the job's socket in " + each);
  }
  return why;
}

SocketDirectory::~SocketDirectory() {
  if (!path_.empty()) ::rmdir(path_.c_str());
}

std::string host_mark() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  std::string boot = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  return fmt::format("{:016x}", hash_of(fmt::format("{}\n{}", name, trim(boot))));
}

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
