// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace nacre {

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  if (path == "-") return read_file(STDIN_FILENO, path, limit);
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return system_error(errno, path);
  return read_file(opened.get(), path, limit);
}

Result<std::string> read_file(int fd, const std::string& name, std::size_t limit) {
  struct stat info {};
  std::string text;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) text.reserve(static_cast<std::size_t>(info.st_size) + 1);
  std::size_t used = 0;
  for (;;) {
    if (used > limit) return Error{EFBIG, fmt::format("{}: larger than the limit of {} bytes", name, limit)};
    std::size_t room = std::max<std::size_t>(text.capacity() - used, 4096);
    text.resize(used + room);
    ssize_t got = ::read(fd, text.data() + used, room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, name);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  text.resize(used);
  return text;
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int write_all_at(int fd, std::string_view text, std::uint64_t offset) {
  while (!text.empty()) {
    ssize_t written = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

UniqueFd open_nameless(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd || errno != EOPNOTSUPP) return fd;  // NFS has no O_TMPFILE
  std::string path = directory + "/.nacre-XXXXXX";
  fd = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
  if (fd) ::unlink(path.c_str());
  return fd;
}

Result<void> check_replaceable(const std::string& path) {
  struct stat info {};
  bool is_there = ::lstat(path.c_str(), &info) == 0;
  if (is_there && S_ISDIR(info.st_mode)) return system_error(EISDIR, path);
  if (is_there && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
    return ::access(path.c_str(), W_OK) == 0 ? Result<void>() : system_error(errno, path);
  std::size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? Result<void>() : system_error(errno, path);
}

bool has_no_writer(int fd) {
  pollfd state{fd, 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0;
}

bool is_null(int fd) {
  constexpr unsigned kMemory = 1;  // null(4)
  constexpr unsigned kNull = 3;
  struct stat info {};
  if (::fstat(fd, &info) < 0) return true;
  return S_ISCHR(info.st_mode) && info.st_rdev == makedev(kMemory, kNull);
}

// ---- remove tree ------------------------------------------------------------------------

namespace {

constexpr int kOpen = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// A directory that is being emptied.
struct OpenDirectory {
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
  static std::optional<OpenDirectory> open_level(int at, const std::string& name) {
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
    return OpenDirectory{std::move(fd), info.st_dev, info.st_ino, name};
  }

  void keep(OpenDirectory& level, const std::string& name, int why) {
    level.kept.insert(name);
    if (failed_ == 0) failed_ = why;
  }

  // Removes files and empty directories. Returns the name of a directory that is not empty; none if all is done.
  std::optional<std::string> empty_innermost() {
    OpenDirectory& level = levels_.back();
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
    OpenDirectory& outer = levels_.back();
    auto inner = open_level(outer.fd.get(), name);
    if (!inner) return keep(outer, name, errno);
    if (inner->device != device_) return keep(outer, name, EXDEV);
    outer.fd.reset();
    levels_.push_back(*std::move(inner));
  }

  void ascend() {
    OpenDirectory inner = std::move(levels_.back());
    levels_.pop_back();
    if (levels_.empty()) return;
    OpenDirectory& outer = levels_.back();
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
  std::vector<OpenDirectory> levels_;
};

}  // namespace

Result<void> remove_tree(const std::string& path) { return Removal().run(path); }

// ---- fingerprint ------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kPrime = 0x100000001b3;
constexpr int kBytesOfSize = 8;

std::uint64_t with_byte(std::uint64_t hash, unsigned char byte) { return (hash ^ byte) * kPrime; }

}  // namespace

void Fingerprint::add(std::string_view piece) {
  is_empty_ = false;
  for (char each : piece) hash_ = with_byte(hash_, static_cast<unsigned char>(each));
  std::uint64_t size = piece.size();
  for (int i = 0; i < kBytesOfSize; ++i) hash_ = with_byte(hash_, static_cast<unsigned char>(size >> (8 * i)));
}

std::string Fingerprint::str() const { return is_empty_ ? "-" : fmt::format("{:016x}", hash_); }

}  // namespace nacre
