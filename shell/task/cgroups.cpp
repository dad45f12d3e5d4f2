// SPDX-License-Identifier: Apache-2.0
#include "task/cgroups.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::task {
namespace {

constexpr const char* kVersion2 = "";  // used in place of a controller: the one hierarchy of version 2

bool contains(const std::vector<std::string_view>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// The cgroup in a controller's hierarchy. /proc/PID/cgroup has lines ID:CONTROLLER,...:PATH.
std::optional<std::string_view> path_in(const std::string& cgroups, const std::string& controller) {
  for (std::string_view line : split(cgroups, '\n')) {
    std::size_t first = line.find(':');
    std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    if (contains(split(line.substr(first + 1, second - first - 1), ','), controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  std::string_view root;   // the directory of the hierarchy that is mounted at ...
  std::string_view point;  // ... this directory
};

// /proc/PID/mountinfo has lines ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTION,...
std::optional<Mount> mount_of(const std::string& mounts, const std::string& controller) {
  constexpr std::size_t kRoot = 3;
  constexpr std::size_t kPoint = 4;
  for (std::string_view line : split(mounts, '\n')) {
    std::vector<std::string_view> fields = split(line, ' ');
    auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.end() - dash < 4 || dash - fields.begin() <= static_cast<std::ptrdiff_t>(kPoint)) continue;
    bool found = controller == kVersion2 ? dash[1] == "cgroup2"
                                         : dash[1] == "cgroup" && contains(split(dash[3], ','), controller);
    if (found) return Mount{fields[kRoot], fields[kPoint]};
  }
  return std::nullopt;
}

// The directory of a cgroup; none if it is outside of what is mounted.
std::optional<std::string> directory_of(std::string_view path, const Mount& mount) {
  if (mount.root != "/") {
    if (!path.starts_with(mount.root)) return std::nullopt;
    path.remove_prefix(mount.root.size());
    if (!path.empty() && path.front() != '/') return std::nullopt;
  }
  if (path.starts_with("/..")) return std::nullopt;
  return fmt::format("{}{}", mount.point, path);
}

}  // namespace

Result<std::uint64_t> read_number(const std::string& path) {
  auto number = parse_u64(trim(TRY(read_file(path))));
  if (!number) return invalid(path + ": expected a number");
  return *number;
}

Result<std::uint64_t> read_keyed_number(const std::string& path, std::string_view key) {
  std::string text = TRY(read_file(path));
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    if (auto number = parse_u64(line.substr(key.size()))) return *number;
  }
  return invalid(fmt::format("{}: expected a line '{}NUMBER'", path, key));
}

Result<Cgroups> Cgroups::of_process(pid_t pid, const std::string& root) {
  Cgroups out;
  out.root_ = root;
  out.cgroups_ = TRY(read_file(fmt::format("{}/proc/{}/cgroup", root, pid)));
  out.mounts_ = TRY(read_file(fmt::format("{}/proc/{}/mountinfo", root, pid)));
  return out;
}

bool Cgroups::has(const std::string& controller) const { return path_in(cgroups_, controller).has_value(); }

std::optional<std::string> Cgroups::directory(const std::string& controller) const {
  std::string hierarchy = has(controller) ? controller : kVersion2;
  auto path = path_in(cgroups_, hierarchy);
  auto mount = mount_of(mounts_, hierarchy);
  auto directory = path && mount ? directory_of(*path, *mount) : std::nullopt;
  if (!directory) return std::nullopt;
  return root_ + *directory;
}

}  // namespace nacre::task
