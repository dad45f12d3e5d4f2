// SPDX-License-Identifier: Apache-2.0
//
// Tar archives made byte by byte (POSIX.1-1988 ustar), as no honest program would make them, and a folder to work
// in.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "archive/extract.hpp"
#include "base/file.hpp"
#include "folder.hpp"

namespace nacre::archive {

constexpr std::size_t kTarBlock = 512;

struct Member {
  std::string path;
  char type = '0';  // 0 file, 1 hard link, 2 symlink, 3 and 4 devices, 5 directory, 6 fifo, x pax attributes
  std::string content;
  std::string target;
  unsigned mode = 0644;
};

inline std::string tar_of(const Member& member) {
  std::string header(kTarBlock, '\0');
  auto put = [&header](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, member.path.substr(0, 100));
  put(100, fmt::format("{:07o}", member.mode));
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", member.content.size()));
  put(136, fmt::format("{:011o}", 1600000000));
  put(148, "        ");
  header[156] = member.type;
  put(157, member.target.substr(0, 100));
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  std::string content = member.content;
  content.resize((content.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return header + content;
}

inline std::string tar_of(const std::vector<Member>& members) {
  std::string out;
  for (const Member& each : members) out += tar_of(each);
  return out + std::string(2 * kTarBlock, '\0');
}

// A pax attribute of the member that follows.
inline Member pax(const std::string& name, const std::string& value) {
  std::string rest = " " + name + "=" + value + "\n";
  std::size_t size = rest.size() + 1;
  while (fmt::format("{}{}", size, rest).size() != size) ++size;
  return {"pax", 'x', fmt::format("{}{}", size, rest), "", 0644};
}

struct Folder : kit::TemporaryFolder {
  [[nodiscard]] std::string make(std::string_view name) const {
    std::filesystem::create_directories(path(name));
    return path(name);
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    auto read = read_file(path(name));
    REQUIRE(read);
    return *std::move(read);
  }
  [[nodiscard]] struct stat stat(std::string_view name) const {
    struct stat info {};
    REQUIRE(::lstat(path(name).c_str(), &info) == 0);
    return info;
  }
  [[nodiscard]] bool has(std::string_view name) const {
    struct stat info {};
    return ::lstat(path(name).c_str(), &info) == 0;
  }
};

inline const Library& library() {
  static const Result<Library> loaded = Library::load();
  REQUIRE(loaded);
  return *loaded;
}

// All entries, and the error that ended them, if one did.
struct Contents {
  std::vector<ArchiveEntry> entries;
  std::vector<std::string> texts;  // content of each, holes left out
  std::string error;
};

inline Contents contents_of(Result<Reader> reader) {
  Contents out;
  if (!reader) {
    out.error = reader.error().message;
    return out;
  }
  for (;;) {
    auto entry = reader->next();
    if (!entry) {
      out.error = entry.error().message;
      return out;
    }
    if (!*entry) return out;
    out.entries.push_back(**entry);
    out.texts.emplace_back();
    for (;;) {
      auto block = reader->next_block();
      if (!block) {
        out.error = block.error().message;
        return out;
      }
      if (!*block) break;
      out.texts.back() += (*block)->bytes;
    }
  }
}

}  // namespace nacre::archive
