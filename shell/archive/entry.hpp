// SPDX-License-Identifier: Apache-2.0
//
// What an archive holds: files, directories and links, each with its permissions and the time of its last change.
// Owners, access lists and extended attributes are neither stored nor restored.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

namespace nacre::archive {

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
