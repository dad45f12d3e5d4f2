// SPDX-License-Identifier: Apache-2.0
#include "archive/entry.hpp"

#include "base/text.hpp"

namespace nacre::archive {

Result<std::string> clean_path(std::string_view path) {
  if (path.size() > kMaxPath) {
    return Error{ENAMETOOLONG, fmt::format("a path of {} bytes; at most {} are allowed", path.size(), kMaxPath)};
  }
  if (path.starts_with('/')) return invalid("an absolute path");
  std::string out;
  for (std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return invalid("a path with a '..' part");
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

Result<void> check_symlink(std::string_view path, std::string_view target) {
  auto refused = [target](std::string_view why) {
    return invalid(fmt::format("a symbolic link to {}, which {}", in_quotes(target), why));
  };
  if (target.size() > kMaxPath) return refused(fmt::format("is longer than {} bytes", kMaxPath));
  if (target.empty()) return refused("is empty");
  if (target.starts_with('/')) return refused("is absolute");
  auto up_left = std::count(path.begin(), path.end(), '/');
  bool at_start = true;
  for (std::string_view part : split(target, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      at_start = false;
    } else if (!at_start) {
      return refused("has a '..' after a name, and so might lead outside");
    } else if (--up_left < 0) {
      return refused("leads outside");
    }
  }
  return {};
}

std::string shown(std::string_view text) {
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

Error failed(int code, std::string_view path) { return system_error(code, in_quotes(path.empty() ? "." : path)); }

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
