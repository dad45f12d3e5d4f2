// SPDX-License-Identifier: Apache-2.0
#include "archive/entry.hpp"

#include <fmt/format.h>

#include "archive/path.hpp"

namespace nacre::archive {
namespace {

std::string permissions(const ArchiveEntry& entry) {
  constexpr std::string_view kLetters = "rwxrwxrwx";
  std::string out(1, entry.type == Type::directory ? 'd' : entry.type == Type::symlink ? 'l' : '-');
  for (std::size_t i = 0; i < kLetters.size(); ++i) out += (entry.mode >> (8 - i) & 1) != 0 ? kLetters[i] : '-';
  return out;
}

std::string local_time(std::time_t time) {
  std::tm parts{};
  if (::localtime_r(&time, &parts) == nullptr) return fmt::format("{}", time);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts)};
}

}  // namespace

std::string long_form(const ArchiveEntry& entry) {
  std::string line = fmt::format("{} {:>12} {:>16} {}", permissions(entry), entry.size,
                                 local_time(entry.mtime.tv_sec), shown(entry.path));
  if (entry.type == Type::symlink) line += " -> " + shown(entry.target);
  if (entry.type == Type::hard_link) line += " link to " + shown(entry.target);
  return line;
}

}  // namespace nacre::archive
