// SPDX-License-Identifier: Apache-2.0
#include "base/remove_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace nacre {
namespace {

constexpr int kOpen = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// A directory that is being emptied.
struct Level {
  UniqueFd fd;  // only for the innermost; the others are reached by ".."
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;              // in the directory above
  std::set<std::string> kept{};  // what cannot be removed
};

class Removal {
 public:
  Result<void> run(const std::string& path) {
    if (::rmdir(path.c_str()) == 0) return {};  // it was empty, so no descriptor is needed
    auto top = open_level(AT_FDCWD, path);
    if (!top) return system_error(errno, path);
    device_ = top->device;
    levels_.push_back(*std::move(top));
    while (!levels_.empty()) {
      if (std::optional<std::string> inner = empty_innermost()) {
        descend(*inner);
      } else {
        ascend();
      }
    }
    if (failed_ == 0 && ::rmdir(path.c_str()) < 0) failed_ = errno;
    if (failed_ != 0) return system_error(failed_, path);
    return {};
  }

 private:
  // errno if there is no such directory.
  static std::optional<Level> open_level(int at, const std::string& name) {
    UniqueFd fd(::openat(at, name.c_str(), kOpen));
    if (!fd && errno == EACCES && ::fchmodat(at, name.c_str(), S_IRWXU, 0) == 0)
      fd = UniqueFd(::openat(at, name.c_str(), kOpen));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) < 0) return std::nullopt;
    if (info.st_uid != ::geteuid()) {
      errno = EPERM;
      return std::nullopt;
    }
    if ((info.st_mode & S_IRWXU) != S_IRWXU) ::fchmod(fd.get(), S_IRWXU);
    return Level{std::move(fd), info.st_dev, info.st_ino, name};
  }

  void keep(Level& level, const std::string& name, int why) {
    level.kept.insert(name);
    if (failed_ == 0) failed_ = why;
  }

  // Removes files and empty directories. Returns the name of a directory that is not empty; none if all is done.
  std::optional<std::string> empty_innermost() {
    Level& level = levels_.back();
    UniqueFd copy(::openat(level.fd.get(), ".", kOpen));
    DIR* folder = copy ? ::fdopendir(copy.get()) : nullptr;
    if (folder == nullptr) {
      if (failed_ == 0) failed_ = errno;
      return std::nullopt;
    }
    static_cast<void>(copy.release());
    std::optional<std::string> inner;
    while (const dirent* each = inner ? nullptr : ::readdir(folder)) {
      std::string name = each->d_name;
      if (name == "." || name == ".." || level.kept.contains(name)) continue;
      int why = remove_at(level.fd.get(), name);
      if (why == ENOTEMPTY || why == EEXIST) {
        inner = std::move(name);
      } else if (why != 0 && why != ENOENT) {
        keep(level, name, why);
      }
    }
    ::closedir(folder);
    return inner;
  }

  // Returns an errno, or 0.
  static int remove_at(int at, const std::string& name) {
    if (::unlinkat(at, name.c_str(), 0) == 0) return 0;
    return (errno == EISDIR && ::unlinkat(at, name.c_str(), AT_REMOVEDIR) == 0) ? 0 : errno;
  }

  void descend(const std::string& name) {
    Level& outer = levels_.back();
    auto inner = open_level(outer.fd.get(), name);
    if (!inner) return keep(outer, name, errno);
    if (inner->device != device_) return keep(outer, name, EXDEV);
    outer.fd.reset();
    levels_.push_back(*std::move(inner));
  }

  void ascend() {
    Level inner = std::move(levels_.back());
    levels_.pop_back();
    if (levels_.empty()) return;
    Level& outer = levels_.back();
    auto above = open_level(inner.fd.get(), "..");
    // the directory has been moved away meanwhile
    if (!above || above->device != outer.device || above->inode != outer.inode) {
      if (failed_ == 0) failed_ = ESTALE;
      levels_.clear();
      return;
    }
    outer.fd = std::move(above->fd);
    if (!inner.kept.empty()) {
      outer.kept.insert(inner.name);
    } else if (int why = remove_at(outer.fd.get(), inner.name); why != 0 && why != ENOENT) {
      keep(outer, inner.name, why);
    }
  }

  dev_t device_ = 0;
  int failed_ = 0;
  std::vector<Level> levels_;
};

}  // namespace

Result<void> remove_tree(const std::string& path) { return Removal().run(path); }

}  // namespace nacre
