// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre {
namespace {

// Fields, counted from behind the name.
enum Field : std::size_t {
  kState = 0,
  kParent = 1,
  kUser = 11,
  kSystem = 12,
  kChildrenUser = 13,
  kChildrenSystem = 14,
  kThreads = 17,
  kStart = 19,
  kPages = 21
};

}  // namespace

// "PID (NAME) S ...", where NAME may have any bytes, parentheses too.
std::optional<ProcessStat> ProcessStat::parse(std::string_view text) {
  std::size_t open = text.find('(');
  std::size_t close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  std::vector<std::string_view> fields = split(trim(text.substr(close + 2)), ' ');
  if (fields.size() <= kPages || fields[kState].empty()) return std::nullopt;
  auto number = [&](Field field) { return parse_u64(fields[field]).value_or(0); };
  ProcessStat out;
  out.name = text.substr(open + 1, close - open - 1);
  out.state = fields[kState][0];
  out.parent = static_cast<pid_t>(number(kParent));
  out.user = number(kUser);
  out.system = number(kSystem);
  out.children_user = number(kChildrenUser);
  out.children_system = number(kChildrenSystem);
  out.threads = number(kThreads);
  out.start = number(kStart);
  out.pages = number(kPages);
  return out;
}

std::optional<ProcessStat> ProcessStat::of(pid_t pid, const std::string& root) {
  auto text = read_file(fmt::format("{}/proc/{}/stat", root, pid));
  return text ? parse(*text) : std::nullopt;
}

double seconds_since_boot() {
  auto text = read_file("/proc/uptime");
  return text ? std::strtod(text->c_str(), nullptr) : 0;
}

}  // namespace nacre
