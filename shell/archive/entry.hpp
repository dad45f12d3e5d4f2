// SPDX-License-Identifier: Apache-2.0
//
// What an archive holds: files, directories and links, each with its permissions and the time of its last change.
// Owners, access lists and extended attributes are neither stored nor restored.
#pragma once

#include <sys/types.h>

#include "base/result.hpp"

namespace nacre::archive {

// Which names an archive may have in it, so that all that is extracted stays below one directory.

inline constexpr std::size_t kMaxPath =
    4095;  // bytes of an entry's path, and of a link's target; PATH_MAX less NUL

// `path` without empty parts and "." parts: "./a//b/" is "a/b"; "" is the directory itself. An error if it is
// absolute, has a ".." part, or is longer than kMaxPath.
Result<std::string> clean_path(std::string_view path);

// An error unless a symbolic link at `path` (in the form of clean_path()) with this target stays below the
// directory, whatever other such links there are. So ".." parts are allowed only at the target's start, where they
// lead up from real directories, and not more of them than `path` has directories: after another name, which may be
// a link itself, they could lead anywhere.
Result<void> check_symlink(std::string_view path, std::string_view target);

// `text` for display: control bytes and backslashes are escaped, so that a name is one line and cannot control the
// terminal.
[[nodiscard]] std::string shown(std::string_view text);

// The error of a system call on `path`; "" is the directory itself.
[[nodiscard]] Error failed(int code, std::string_view path);

enum class Type { file, directory, symlink, hard_link };

// A part of a file that has content. The space between such parts is a hole, and reads as zeros.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct ArchiveEntry {
  std::string path;  // in the form of clean_path(), and not empty
  Type type = Type::file;
  mode_t mode = 0644;      // permissions, up to 0777
  std::uint64_t size = 0;  // bytes, of a file; else 0
  timespec mtime{};
  std::string target;           // of a symlink: as stored; of a hard link: a path like `path`
  std::vector<Extent> extents;  // of a file, ascending; empty: it has no holes. {0, 0} alone: all of it is a hole
};

// The progress of a copy.
struct Progress {
  std::uint64_t entries = 0;  // that were begun
  std::uint64_t bytes = 0;    // of content
};

// Callbacks while an archive is read or written. Both may be empty.
struct Watch {
  std::function<void(const ArchiveEntry&)> on_entry;  // for each entry, before its content is copied
  // Called for each entry and each block of content; false ends the work with the error ECANCELED.
  std::function<bool(const Progress&)> go_on;
};

// A line in the form of ls -l: type and permissions, size, time (in the local zone), path, and a link's target.
[[nodiscard]] std::string long_form(const ArchiveEntry& entry);

}  // namespace nacre::archive
