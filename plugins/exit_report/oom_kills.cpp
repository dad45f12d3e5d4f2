// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/oom_kills.hpp"

#include "task/cgroups.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kKills = "oom_kill ";
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;  // version 1 has a number for that, of about 2^63

}  // namespace

OomKills OomKills::of_shell(pid_t shell, const std::string& root) {
  OomKills out;
  auto cgroups = task::Cgroups::of_process(shell, root);
  auto directory = cgroups ? cgroups->directory("memory") : std::nullopt;
  if (!directory) return out;
  bool old = cgroups->has("memory");
  std::string events = *directory + (old ? "/memory.oom_control" : "/memory.events");
  auto seen = task::read_keyed_number(events, kKills);
  if (!seen) return out;
  out.events_file_ = std::move(events);
  out.limit_file_ = *directory + (old ? "/memory.limit_in_bytes" : "/memory.max");
  out.seen_ = *seen;
  return out;
}

std::uint64_t OomKills::fresh() {
  if (events_file_.empty()) return 0;
  auto now = task::read_keyed_number(events_file_, kKills);
  if (!now || *now < seen_) return 0;
  return *now - std::exchange(seen_, *now);
}

std::optional<std::uint64_t> OomKills::limit() const {
  if (limit_file_.empty()) return std::nullopt;
  auto limit = task::read_number(limit_file_);
  return limit && *limit < kNoLimit ? std::optional(*limit) : std::nullopt;
}

}  // namespace nacre::plugins
