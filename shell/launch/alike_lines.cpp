// SPDX-License-Identifier: Apache-2.0
#include "launch/alike_lines.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace nacre::launch {
namespace {

constexpr std::string_view kPrefix = "nacre-shell[";
// Notices of plugins are left out: each shell may mean its own.
constexpr std::array<std::string_view, 3> kLevels{"]: warn: ", "]: error: ", "]: fatal: "};

// The shell of a warning or error, and the text from there on; none: it is no such message.
std::optional<std::pair<value::Idset, std::string_view>> message(std::string_view line) {
  std::size_t end = line.starts_with(kPrefix) ? line.find("]: ") : std::string_view::npos;
  if (end == std::string_view::npos) return std::nullopt;
  bool has_level =
      std::any_of(kLevels.begin(), kLevels.end(), [&](auto each) { return line.substr(end).starts_with(each); });
  if (!has_level) return std::nullopt;
  auto shells = value::Idset::parse(line.substr(kPrefix.size(), end - kPrefix.size()));
  if (!shells || shells->empty()) return std::nullopt;
  return std::pair(*std::move(shells), line.substr(end));
}

}  // namespace

void AlikeLines::add(const std::string& line) {
  auto found = message(line);
  if (!found) {
    flush();
    return put_(line);
  }
  value::Idset& shells = found->first;
  const std::string_view rest = found->second;
  auto alike = std::find_if(held_.begin(), held_.end(), [&](const Held& each) { return each.rest == rest; });
  bool again = alike != held_.end() && !(alike->shells & shells).empty();
  if (again || held_.size() == kMostHeld) {
    flush();
    alike = held_.end();
  }
  if (alike == held_.end())
    held_.push_back({std::move(shells), std::string(rest)});
  else
    alike->shells = alike->shells | shells;
}

void AlikeLines::flush() {
  for (const Held& each : std::exchange(held_, {}))
    put_(fmt::format("{}{}{}", kPrefix, each.shells.short_str(), each.rest));
}

}  // namespace nacre::launch
