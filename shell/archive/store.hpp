// SPDX-License-Identifier: Apache-2.0
//
// The directory of the user's archives. An archive NAME is a file NAME.tar.zst, or .tar.gz, .tar.xz or .tar, and a
// name has at most one. If all nodes see the directory, they share its archives.
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

class ArchiveStore {
 public:
  // $NACRE_ARCHIVE_DIR, else $XDG_DATA_HOME/nacre/archives, else $HOME/.local/share/nacre/archives, as `variable`
  // returns them; an empty one counts as not set. An error if none is set, or if it is no absolute path.
  using Variable = std::function<std::optional<std::string>(const char* name)>;
  static Result<ArchiveStore> of_environment(const Variable& variable);
  explicit ArchiveStore(std::string directory) : directory_(std::move(directory)) {}

  // A name has 1 to kMaxName bytes, without '/' and control characters, and neither starts with '.' nor ends with
  // one of the extensions.
  static Result<void> check_name(std::string_view name);

  struct Found {
    std::string path;
    Compression compression = Compression::none;  // by its extension
  };
  // The archive of this name, if there is one. Two of them are an error.
  Result<std::optional<Found>> look_up(const std::string& name) const;
  // The same, if the archive has to exist: otherwise ENOENT, with this directory and the archives that are there.
  Result<Found> find(const std::string& name) const;
  // The names of all archives, sorted; none if there is no such directory.
  Result<std::vector<std::string>> names() const;
  Result<void> remove(const Found& found) const;

  [[nodiscard]] std::string path_of(const std::string& name, Compression compression) const;
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

// A file that appears only when it is complete: it has a name of its own (`.NAME.tar.zst.XXXXXXXX`) until commit(),
// and is removed if that is never called.
class NewFile {
 public:
  // The file that will be `path`; makes the missing directories above.
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = default;
  ~NewFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Writes it to the disk, then gives it its name. Without `replace`, a file that has got the name first is an
  // error, EEXIST.
  Result<void> commit(bool replace);

 private:
  NewFile(UniqueFd fd, std::string temporary, std::string path)
      : fd_(std::move(fd)), temporary_(std::move(temporary)), path_(std::move(path)) {}

  UniqueFd fd_;  // none: it was committed, or moved from
  std::string temporary_;
  std::string path_;
};

}  // namespace nacre::archive
