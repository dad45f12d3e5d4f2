// SPDX-License-Identifier: Apache-2.0
//
// A directory in a shared place, such as /tmp, that belongs to this process while it runs. A lock on it (flock(2))
// shows that: the kernel releases it when the process ends, in whatever way. So directories of processes that are
// gone can be recognised. The name has the host that made it, as several hosts may share the place, but not the
// locks:
//
//   PARENT/nacre-HOST...-XXXXXX       HOST: host_digits()
#pragma once

#include <time.h>

#include "base/unique_fd.hpp"

struct __dirstream;

namespace nacre {

// 8 hexadecimal digits made of `text`: they only distinguish hosts, and are no protection.
[[nodiscard]] std::string digits_of(std::string_view text);
[[nodiscard]] std::string host_digits();  // of this host's name

class OwnedDirectory {
 public:
  OwnedDirectory() = default;  // no directory
  // Makes PARENT/nacre-HOST and `more`, with mode 0700. An error has the errno and the reason, but no path.
  // `announce` is called with each path before it is made, for a process that removes it if this one is killed
  // meanwhile, and again, with false, if it was not made.
  using Announce = std::function<void(const std::string& path, bool there)>;
  static Result<OwnedDirectory> create(const std::string& parent, const std::string& more,
                                       const Announce& announce = {});

  // Makes `path` itself, with mode 0700. An existing one is taken if it is this user's and no process has it.
  static Result<OwnedDirectory> create_at(const std::string& path, const Announce& announce = {});

  OwnedDirectory(OwnedDirectory&&) noexcept = default;
  OwnedDirectory& operator=(OwnedDirectory&&) noexcept = default;

  [[nodiscard]] const std::string& path() const { return path_; }
  // When the directory, as it was taken, had last changed, by the file system's clock.
  [[nodiscard]] timespec changed_at() const { return changed_at_; }

 private:
  friend class LeftDirectories;
  OwnedDirectory(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  static Result<OwnedDirectory> take(std::string path);

  std::string path_;
  UniqueFd lock_;  // -1: there are no locks, so no other process takes it either
  timespec changed_at_{};
};

// Looks below a folder, a few names at a time, for directories that processes of this user and host have left and
// that are gone, and takes them over. It stops if `others_look` is true for one of the names, as another process
// looks then. Directories that have changed since `own` was made are left alone: their process is only beginning,
// and may not have its lock yet.
class LeftDirectories {
 public:
  static constexpr std::size_t kNamesAtOnce = 512;
  static constexpr std::size_t kLocksAtOnce = 64;
  using OthersLook =
      // The argument: `more` of OwnedDirectory::create, and -XXXXXX
      std::function<bool(std::string_view more_of_name)>;

  static Result<LeftDirectories> in(const std::string& parent, OthersLook others_look = {},
                                    const OwnedDirectory* own = nullptr);
  LeftDirectories(LeftDirectories&& other) noexcept;
  LeftDirectories& operator=(LeftDirectories&&) = delete;
  ~LeftDirectories();

  [[nodiscard]] bool look();  // false: all names have been looked at
  [[nodiscard]] const std::vector<OwnedDirectory>& found() const { return found_; }

 private:
  LeftDirectories(std::string parent, __dirstream* folder, OthersLook others_look);
  bool read_names();
  bool lock_some();

  std::string parent_;
  std::string front_;
  __dirstream* folder_;  // null: all names have been read
  OthersLook others_look_;
  std::optional<timespec> before_;
  std::vector<std::string> names_;  // still to be looked at
  std::vector<OwnedDirectory> found_;
};

}  // namespace nacre
