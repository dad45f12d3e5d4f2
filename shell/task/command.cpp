// SPDX-License-Identifier: Apache-2.0
#include "task/command.hpp"

#include <unistd.h>

namespace nacre::task {

int ChildSetup::unused_target() const {
  int target = STDERR_FILENO + 1;
  auto used = [&](const Fd& fd) { return fd.target == target; };
  while (std::any_of(fds.begin(), fds.end(), used)) ++target;
  return target;
}

void enter(Command& command, const Container& container) {
  for (const auto& [name, outside, inside] : container.variables) {
    auto now = command.env.get(name);
    if (now.has_value() != outside.has_value() || (now && *now != *outside)) continue;
    inside ? command.env.set(name, *inside) : command.env.unset(name);
  }
  if (!command.setup.cwd) command.setup.cwd = container.directory;
  command.setup.container = container;
}

// ---- limits -----------------------------------------------------------------------------

namespace {

constexpr LimitName kNames[] = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},         {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},       {"fsize", RLIMIT_FSIZE},       {"locks", RLIMIT_LOCKS},
    {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
    {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},       {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME},     {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK},
};

}  // namespace

std::span<const LimitName> limit_names() { return kNames; }

std::optional<int> limit_resource(std::string_view name) {
  if (name == "ofile") return RLIMIT_NOFILE;  // its older name, which getrlimit(2) has too
  for (const LimitName& each : kNames) {
    if (each.name == name) return each.resource;
  }
  return std::nullopt;
}

std::optional<std::string_view> limit_name(int resource) {
  for (const LimitName& each : kNames) {
    if (each.resource == resource) return each.name;
  }
  return std::nullopt;
}

}  // namespace nacre::task
