// SPDX-License-Identifier: Apache-2.0
//
// The directory that an archive is extracted to. Nothing is made, changed or removed outside of it: each path is
// walked from it part by part, and no symbolic link on the way is followed, be it of the archive or there before.
// The directory itself may be named through links.
//
// Paths are as clean_path() gives them. Errors name the path.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "archive/entry.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::archive {

enum class Existing { refuse, replace };  // what to do where a file or link is there already

class Destination {
 public:
  // `undoable`: what is made is kept in mind for undo().
  static Result<Destination> open(const std::string& directory, Existing existing, bool undoable = false);

  // Makes it, or takes the one that is there. Its permissions and time are set by finish(); those of one that was
  // there before only with Existing::replace.
  Result<void> add_directory(const Entry& entry);
  // A new file, empty, for writing; a hard link that it replaces keeps its content elsewhere. close_file() gives it
  // its size, permissions and time.
  Result<UniqueFd> open_file(const Entry& entry);
  Result<void> close_file(UniqueFd file, const Entry& entry);
  // Removes a file that could not be completed.
  void discard_file(const Entry& entry);
  Result<void> add_symlink(const Entry& entry);
  // To a regular file that is below the directory.
  Result<void> add_hard_link(const Entry& entry);

  // To be called last: a directory may forbid writing to it.
  Result<void> finish();

  // Removes what was made, as far as it can be. What it had replaced does not come back, and a directory in which there is
  // something else stays.
  void undo();

 private:
  struct Place {
    int parent = -1;   // open as long as parent_ is
    const char* name;  // in it; the end of the path
  };
  Destination(UniqueFd root, Existing existing, bool undoable)
      : root_(std::move(root)), existing_(existing), undoable_(undoable) {}
  void made(std::string_view path) {
    if (undoable_) made_.emplace_back(path);
  }
  Result<Place> place_of(const std::string& path);
  // Opens a directory below, step by step; `make`: those that are missing are made.
  Result<UniqueFd> walk(std::string_view path, bool make);
  Result<UniqueFd> step(int parent, const std::string& name, std::string_view path, bool make);
  Result<void> clear(const Place& place, const std::string& path) const;

  UniqueFd root_;
  Existing existing_;
  bool undoable_;
  std::string parent_path_;  // the last one asked for: entries of one directory come together
  UniqueFd parent_;
  std::unordered_set<std::string> made_on_the_way_;  // without an entry of their own so far
  std::vector<Entry> directories_;                   // whose permissions and time are to be set
  std::vector<std::string> made_;                    // in this order; only if undoable_
};

}  // namespace nacre::archive
