// SPDX-License-Identifier: Apache-2.0
//
// The directory that archives are kept in. An archive NAME is a file NAME.tar.zst, or .tar.gz, .tar.xz or .tar, and
// there is one at most of a name. A directory that all nodes see makes the archives theirs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/writer.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::archive {

inline constexpr const char* kDefaultName = "main";
inline constexpr std::size_t kMaxName = 200;  // bytes of an archive's name

class Store {
 public:
  // $NACRE_ARCHIVE_DIR, else $XDG_DATA_HOME/nacre/archives, else $HOME/.local/share/nacre/archives, by the
  // variables that `variable` tells; an empty one counts as not set. An error if none is set, or it is no absolute
  // path.
  using Variable = std::function<std::optional<std::string>(const char* name)>;
  static Result<Store> of_environment(const Variable& variable);
  explicit Store(std::string directory) : directory_(std::move(directory)) {}

  // A name has 1 to kMaxName bytes, without '/' and control characters, and neither starts with '.' nor ends with
  // an extension of ours.
  static Result<void> check_name(std::string_view name);

  struct Found {
    std::string path;
    Compression compression = Compression::none;  // by its extension
  };
  // The archive of this name, if there is one. Two of them are an error.
  Result<std::optional<Found>> look_up(const std::string& name) const;
  // The same, where it has to be: else ENOENT, which names this directory and the archives that are there.
  Result<Found> find(const std::string& name) const;
  // The names of all, sorted; none if the directory is not there.
  Result<std::vector<std::string>> names() const;
  Result<void> remove(const Found& found) const;

  [[nodiscard]] std::string path_of(const std::string& name, Compression compression) const;
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

// A file that is not there before it is complete: under a name of its own (`.NAME.tar.zst.XXXXXXXX`) until
// commit(), and gone if that never comes.
class NewFile {
 public:
  // To become `path`; makes the directories above that are missing.
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = default;
  ~NewFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  // On the disk, then under its name. Without `replace`, one that has got there first is an error, EEXIST.
  Result<void> commit(bool replace);

 private:
  NewFile(UniqueFd fd, std::string temporary, std::string path)
      : fd_(std::move(fd)), temporary_(std::move(temporary)), path_(std::move(path)) {}

  UniqueFd fd_;  // none: committed, or moved from
  std::string temporary_;
  std::string path_;
};

}  // namespace nacre::archive
