// SPDX-License-Identifier: Apache-2.0
#include "base/owned_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/program.hpp"

namespace nacre {
namespace {

constexpr std::string_view kFront = "nacre-";
constexpr int kTries = 8;  // to make a directory, as another process may take it for one that was left

// When `fd` last changed, if it is still what `path` names, and is a directory that only this user may enter.
std::optional<timespec> own_change(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  bool is_own = ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
                opened.st_ino == named.st_ino && opened.st_uid == ::geteuid() &&
                (opened.st_mode & ~S_IFMT) == S_IRWXU;
  return is_own ? std::optional(opened.st_mtim) : std::nullopt;
}

bool is_before(const timespec& one, const timespec& other) {
  return std::pair(one.tv_sec, one.tv_nsec) < std::pair(other.tv_sec, other.tv_nsec);
}

bool changed_before(const std::string& path, const timespec& time) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && is_before(info.st_mtim, time);
}

// In a shared place anybody may make any number of names: only what can be a directory of this user is opened.
bool is_own_directory(int folder, const dirent& entry) {
  if (entry.d_type != DT_DIR && entry.d_type != DT_UNKNOWN) return false;
  struct stat info {};
  bool is_there = ::fstatat(folder, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  return is_there && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

// Six letters and digits, as those of mkdtemp(3). If the kernel has no random bytes yet the names are alike, and
// the next one is tried.
std::string random_end() {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::array<unsigned char, 6> bytes{};
  [[maybe_unused]] ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  std::string out;
  for (unsigned char byte : bytes) out += kLetters[byte % kLetters.size()];
  return out;
}

}  // namespace

// FNV-1a, folded.
std::string digits_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
  return fmt::format("{:08x}", static_cast<std::uint32_t>(hash ^ (hash >> 32)));
}

std::string host_digits() { return digits_of(host_name()); }

// EWOULDBLOCK: another process has it.
Result<OwnedDirectory> OwnedDirectory::take(std::string path) {
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) return system_error(errno, path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) < 0) {
    if (errno == EWOULDBLOCK) return system_error(errno, path);
    lock.reset();
    return OwnedDirectory(std::move(path), std::move(lock));
  }
  auto change = own_change(lock.get(), path);
  if (!change) return system_error(ENOENT, path);
  OwnedDirectory taken(std::move(path), std::move(lock));
  taken.changed_at_ = *change;
  return taken;
}

Result<OwnedDirectory> OwnedDirectory::create(const std::string& parent, const std::string& more,
                                              const Announce& announce) {
  std::string front = fmt::format("{}/{}{}{}-", parent, kFront, host_digits(), more);
  for (int tries = 1;; ++tries) {
    std::string path = front + random_end();
    if (announce) announce(path, true);
    bool is_made = ::mkdir(path.c_str(), S_IRWXU) == 0;
    int error = errno;
    auto taken = is_made ? take(path) : system_error(error, fmt::format("cannot make {}XXXXXX", front));
    bool lost = is_made && !taken && (taken.error().code == EWOULDBLOCK || taken.error().code == ENOENT);
    if (is_made && !taken && !lost) ::rmdir(path.c_str());  // the same as if no descriptor is free
    if (!taken && announce) announce(path, false);
    bool again = lost || (!is_made && error == EEXIST);
    if (!again || tries == kTries) return taken;
  }
}

Result<OwnedDirectory> OwnedDirectory::create_at(const std::string& path, const Announce& announce) {
  if (announce) announce(path, true);
  const bool is_made = ::mkdir(path.c_str(), S_IRWXU) == 0;
  const int error = errno;
  auto taken = is_made || error == EEXIST ? take(path) : system_error(error, path);
  if (is_made && !taken) ::rmdir(path.c_str());
  if (!taken && announce) announce(path, false);
  return taken;
}

Result<LeftDirectories> LeftDirectories::in(const std::string& parent, OthersLook others_look,
                                            const OwnedDirectory* own) {
  DIR* folder = ::opendir(parent.c_str());
  if (folder == nullptr) return system_error(errno, parent);
  LeftDirectories out(parent, folder, std::move(others_look));
  if (own != nullptr) out.before_ = own->changed_at();
  return out;
}

LeftDirectories::LeftDirectories(std::string parent, __dirstream* folder, OthersLook others_look)
    : parent_(std::move(parent)),
      front_(std::string(kFront) + host_digits()),
      folder_(folder),
      others_look_(std::move(others_look)) {}

LeftDirectories::LeftDirectories(LeftDirectories&& other) noexcept
    : parent_(std::move(other.parent_)),
      front_(std::move(other.front_)),
      folder_(std::exchange(other.folder_, nullptr)),
      others_look_(std::move(other.others_look_)),
      before_(other.before_),
      names_(std::move(other.names_)),
      found_(std::move(other.found_)) {}

LeftDirectories::~LeftDirectories() {
  if (folder_ != nullptr) ::closedir(folder_);
}

bool LeftDirectories::look() { return folder_ != nullptr ? read_names() : lock_some(); }

bool LeftDirectories::read_names() {
  for (std::size_t i = 0; i < kNamesAtOnce; ++i) {
    const dirent* each = ::readdir(folder_);
    if (each == nullptr) {
      ::closedir(std::exchange(folder_, nullptr));
      return !names_.empty();
    }
    std::string_view name = each->d_name;
    if (!name.starts_with(front_) || !is_own_directory(::dirfd(folder_), *each)) continue;
    if (others_look_ && others_look_(name.substr(front_.size()))) return false;
    names_.emplace_back(name);
  }
  return true;
}

bool LeftDirectories::lock_some() {
  for (std::size_t i = 0; i < kLocksAtOnce && !names_.empty(); ++i) {
    std::string path = fmt::format("{}/{}", parent_, names_.back());
    names_.pop_back();
    if (before_ && !changed_before(path, *before_)) continue;
    auto taken = OwnedDirectory::take(std::move(path));
    if (taken && taken->lock_) found_.push_back(*std::move(taken));
  }
  return !names_.empty();
}

}  // namespace nacre
