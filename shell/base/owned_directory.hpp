// SPDX-License-Identifier: Apache-2.0
//
// A directory in a place that many use, such as /tmp, that is this process's for as long as it runs. A lock on it (flock(2)) says that it
// is: the kernel lets go of that when the process ends, however it does. So what is left by processes that are gone can be told
// from what is in use. Its name says which host made it, as a place may be shared by many, and a lock may not:
//
//   PARENT/nacre-HOST...-XXXXXX       HOST: host_digits()
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

struct __dirstream;

namespace nacre {

// 8 hexadecimal digits made of `text`: only to tell hosts apart, not to keep anybody out.
[[nodiscard]] std::string digits_of(std::string_view text);
[[nodiscard]] std::string host_digits();  // of this host's name

class OwnedDirectory {
 public:
  OwnedDirectory() = default;  // none
  // PARENT/nacre-HOST and `more`, with mode 0700. An error names no path: errno and why.
  static Result<OwnedDirectory> create(const std::string& parent, const std::string& more);

  OwnedDirectory(OwnedDirectory&&) noexcept = default;
  OwnedDirectory& operator=(OwnedDirectory&&) noexcept = default;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  friend class LeftDirectories;
  OwnedDirectory(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  static Result<OwnedDirectory> take(std::string path);

  std::string path_;
  UniqueFd lock_;  // -1: where there are no locks, nobody else takes it either
};

// Looks below a folder, a few names at a time, for what processes of this user and host have left that are gone. It is this process's
// then. Where one of the names is one that `others_look` is true of, it looks no further: another process does.
class LeftDirectories {
 public:
  static constexpr std::size_t kNamesAtOnce = 512;
  static constexpr std::size_t kLocksAtOnce = 64;
  using OthersLook =
      std::function<bool(std::string_view more_of_name)>;  // as OwnedDirectory::create's `more`, and -XXXXXX

  static Result<LeftDirectories> in(const std::string& parent, OthersLook others_look = {});
  LeftDirectories(LeftDirectories&& other) noexcept;
  LeftDirectories& operator=(LeftDirectories&&) = delete;
  ~LeftDirectories();

  [[nodiscard]] bool look();  // false once all has been looked at
  [[nodiscard]] const std::vector<OwnedDirectory>& found() const { return found_; }

 private:
  LeftDirectories(std::string parent, __dirstream* folder, OthersLook others_look);
  bool read_names();
  bool lock_some();

  std::string parent_;
  std::string front_;
  __dirstream* folder_;  // null: all names have been read
  OthersLook others_look_;
  std::vector<std::string> names_;  // not looked at yet
  std::vector<OwnedDirectory> found_;
};

}  // namespace nacre
