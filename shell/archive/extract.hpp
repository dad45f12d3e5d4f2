// SPDX-License-Identifier: Apache-2.0
//
// Extracts an archive to a directory, safely: Reader checks the entries of the archive, and ExtractDestination the
// places to which they go.
#pragma once

#include <unordered_set>

#include "archive/entry.hpp"
#include "archive/library.hpp"
#include "base/unique_fd.hpp"

namespace nacre::archive {

// Reads a tar archive (ustar, pax or GNU), plain or compressed with gzip, zstd or xz, whatever its file is called,
// from its beginning to its end.
//
// It returns only what is safe to extract. The first entry that is not is an error `ARCHIVE: 'ENTRY': refused:
// WHY`: a path that clean_path() or check_symlink() refuses, a hard link to such a path, a device, a fifo, a
// socket, a file with a set-user-ID or set-group-ID bit. More entries than the limit are an error too.

inline constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 24;  // of an archive that is read or written

class Reader {
 public:
  // `library` must outlive it. Each error starts with `path`.
  static Result<Reader> open(const Library& library, const std::string& path,
                             std::uint64_t max_entries = kMaxEntries);
  // As open(), from memory, which must outlive the reader; errors have `name` in place of a path.
  static Result<Reader> of_memory(const Library& library, std::string_view bytes, std::string name);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  // The next entry; none at the end. An archive without a proper end was cut off, and is an error.
  Result<std::optional<ArchiveEntry>> next();

  struct Block {
    std::uint64_t offset = 0;  // in the file
    std::string_view bytes;    // valid until the next call
  };
  // The next content of the file that next() has returned; none at its end. Blocks ascend and lie within its size;
  // the space between them is a hole.
  Result<std::optional<Block>> next_block();

  [[nodiscard]] const std::string& name() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  static std::unique_ptr<State> make(const Library& library, std::string name);

  std::unique_ptr<State> state_;
};

// The directory to which an archive is extracted. Nothing outside of it is made, changed or removed: each path is
// followed from it part by part, through no symbolic link, whether that is from the archive or was there before.
// The name of the directory itself may contain links.
//
// Paths are in the form of clean_path(). Errors name the path.
enum class Existing { refuse, replace };  // what to do if a file or link exists already

class ExtractDestination {
 public:
  // `undoable`: records what is made, so that undo() can remove it.
  static Result<ExtractDestination> open(const std::string& directory, Existing existing, bool undoable = false);

  // Makes the directory, or uses an existing one. finish() sets its permissions and time; for an existing directory
  // only with Existing::replace.
  Result<void> add_directory(const ArchiveEntry& entry);
  // A new file, empty, for writing; if it replaces a hard link, the link's other names keep their content.
  // close_file() sets its size, permissions and time.
  Result<UniqueFd> open_file(const ArchiveEntry& entry);
  Result<void> close_file(UniqueFd file, const ArchiveEntry& entry);
  // Removes a file that could not be completed.
  void discard_file(const ArchiveEntry& entry);
  Result<void> add_symlink(const ArchiveEntry& entry);
  // The target is a regular file below the directory.
  Result<void> add_hard_link(const ArchiveEntry& entry);

  // Has to be called last: a directory may then forbid writing to it.
  Result<void> finish();

  // Removes what was made, as far as possible. It does not restore what was replaced, and it leaves a directory
  // that has other things in it.
  void undo();

 private:
  struct Place {
    int parent = -1;   // valid as long as parent_ is
    const char* name;  // in the parent; the end of the path
  };
  ExtractDestination(UniqueFd root, Existing existing, bool undoable)
      : root_(std::move(root)), existing_(existing), undoable_(undoable) {}
  void made(std::string_view path) {
    if (undoable_) made_.emplace_back(path);
  }
  Result<Place> place_of(const std::string& path);
  // Opens a directory below, step by step; `make`: makes the missing ones.
  Result<UniqueFd> walk(std::string_view path, bool make);
  Result<UniqueFd> step(int parent, const std::string& name, std::string_view path, bool make);
  Result<void> clear(const Place& place, const std::string& path) const;

  UniqueFd root_;
  Existing existing_;
  bool undoable_;
  std::string parent_path_;  // the last parent that was used, as entries of one directory usually come together
  UniqueFd parent_;
  std::unordered_set<std::string> made_on_the_way_;  // directories that have had no entry of their own so far
  std::vector<ArchiveEntry> directories_;            // their permissions and times are still to be set
  std::vector<std::string> made_;                    // in the order of making; only if undoable_
};

struct ExtractOptions {
  std::string directory = ".";         // it has to exist
  std::optional<std::string> pattern;  // only entries whose whole path matches this glob(7); '*' matches '/' too
  Existing existing = Existing::refuse;
  std::optional<std::uint64_t> max_bytes;  // of content in all; holes do not count
  std::uint64_t bytes_before = 0;          // bytes that already count
  std::string limited_by = "--max-size";   // the option with which the user can allow more
  // After an error everything that was extracted is removed, but not after an interruption.
  bool all_or_nothing = false;
};

// Extracts the rest of `reader`. Returns how many entries it extracted, and how much content. Each error starts
// with the archive's name, and ends the work at once: what was extracted before stays, but no incomplete file does.
// SIGXFSZ has to be ignored, so that a file beyond the limit of RLIMIT_FSIZE is such an error.
Result<Progress> extract(Reader& reader, const ExtractOptions& options, const Watch& watch);

}  // namespace nacre::archive
