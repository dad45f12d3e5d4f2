// SPDX-License-Identifier: Apache-2.0
#include "archive/create.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "archive/path.hpp"
#include "archive/reader.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace nacre::archive {

// ---- tree -------------------------------------------------------------------------------
//
// The files of a tree, in an order that is the same each time.

struct Found {
  std::string path;     // in the form of clean_path()
  struct stat info {};  // of the file itself, not of a link's target
};

// Calls `visit` for each of `paths`, which are below the directory that `base` is open for, and for all that is
// below those: a directory first, then its content by name. "" is `base` itself, which is not visited. Symbolic
// links are not followed. Errors name the path.
Result<void> walk(int base, const std::vector<std::string>& paths,
                  const std::function<Result<void>(const Found&)>& visit);

// ---- create -----------------------------------------------------------------------------

namespace {

constexpr std::size_t kCopySize = std::size_t{1} << 20;
constexpr std::uint64_t kStatBlock = 512;  // bytes, of st_blocks

Error refused(const std::string& path, std::string_view why) {
  return invalid(fmt::format("{}: {}", in_quotes(path), why));
}

// The parts of a file that have content. Empty: all of it, as far as its file system knows.
Result<std::vector<Extent>> extents_of(int fd, const struct stat& info) {
  auto size = static_cast<std::uint64_t>(info.st_size);
  std::vector<Extent> out;
  if (static_cast<std::uint64_t>(info.st_blocks) * kStatBlock >= size) return out;
  for (off_t at = 0; at < info.st_size;) {
    off_t data = ::lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    off_t hole = data < 0 ? -1 : ::lseek(fd, data, SEEK_HOLE);
    if (hole < 0 && errno == EINVAL) return std::vector<Extent>();
    if (hole < 0) return system_error(errno, "lseek");
    hole = std::min(hole, info.st_size);
    out.push_back({static_cast<std::uint64_t>(data), static_cast<std::uint64_t>(hole - data)});
    at = hole;
  }
  if (out.empty()) out.push_back({});
  return out;
}

bool same_content(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

class Archiver {
 public:
  Archiver(Writer& writer, int base, const Watch& watch) : writer_(writer), base_(base), watch_(watch) {}

  // Leaves one file of the tree out: the archive that is being written.
  Result<void> leave_out(int fd) {
    if (::fstat(fd, &own_) < 0) return system_error(errno, "fstat");
    return {};
  }

  Result<void> copy(Reader& old) {
    while (std::optional<ArchiveEntry> entry = TRY(old.next())) {
      CHECK_OK(begin(*entry));
      while (std::optional<Reader::Block> block = TRY(old.next_block())) {
        CHECK_OK(write(block->offset, block->bytes));
      }
      CHECK_OK(writer_.end());
    }
    return {};
  }

  Result<void> add(const Found& found) {
    if (found.info.st_dev == own_.st_dev && found.info.st_ino == own_.st_ino) return {};
    ArchiveEntry entry;
    entry.path = found.path;
    entry.mode = found.info.st_mode & 0777;
    entry.mtime = found.info.st_mtim;
    if (S_ISREG(found.info.st_mode)) return add_file(found, std::move(entry));
    if (S_ISLNK(found.info.st_mode)) {
      entry.type = Type::symlink;
      entry.target = TRY(target_of(found.path));
    } else if (S_ISDIR(found.info.st_mode)) {
      if (has_.contains(found.path)) return {};
      entry.type = Type::directory;
    } else {
      return refused(found.path,
                     fmt::format("{}; only files, directories and symbolic links can be stored", what_is(found)));
    }
    CHECK_OK(begin(entry));
    return writer_.end();
  }

  [[nodiscard]] const Progress& done() const { return done_; }

 private:
  static std::string_view what_is(const Found& found) {
    switch (found.info.st_mode & S_IFMT) {
      case S_IFIFO: return "a fifo";
      case S_IFSOCK: return "a socket";
      case S_IFCHR: return "a character device";
      case S_IFBLK: return "a block device";
      default: return "of an unknown type";
    }
  }

  Result<std::string> target_of(const std::string& path) const {
    std::string target(kMaxPath + 1, '\0');
    ssize_t size = ::readlinkat(base_, path.c_str(), target.data(), target.size());
    if (size < 0) return failed(errno, path);
    target.resize(static_cast<std::size_t>(size));
    CHECK_OK(in(in_quotes(path), check_symlink(path, target)));
    return target;
  }

  Result<void> add_file(const Found& found, ArchiveEntry entry) {
    if ((found.info.st_mode & (S_ISUID | S_ISGID)) != 0) {
      return refused(found.path, "a set-user-ID or set-group-ID bit, which no archive carries");
    }
    if (found.info.st_nlink > 1) {
      auto [first, is_new] = linked_.emplace(std::pair(found.info.st_dev, found.info.st_ino), found.path);
      if (!is_new) {
        entry.type = Type::hard_link;
        entry.target = first->second;
        CHECK_OK(begin(entry));
        return writer_.end();
      }
    }
    UniqueFd file(::openat(base_, found.path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) return failed(errno, found.path);
    entry.size = static_cast<std::uint64_t>(found.info.st_size);
    entry.extents = TRY(in(in_quotes(found.path), extents_of(file.get(), found.info)));
    CHECK_OK(begin(entry));
    CHECK_OK(copy_file(file.get(), found, entry));
    return writer_.end();
  }

  Result<void> copy_file(int fd, const Found& found, const ArchiveEntry& entry) {
    std::vector<Extent> extents = entry.extents;
    if (extents.empty()) extents.push_back({0, entry.size});
    for (const Extent& extent : extents) {
      for (std::uint64_t at = extent.offset; at < extent.offset + extent.size;) {
        auto wanted = std::min<std::uint64_t>(extent.offset + extent.size - at, buffer_.size());
        ssize_t got = ::pread(fd, buffer_.data(), static_cast<std::size_t>(wanted), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed(errno, found.path);
        if (got == 0) return refused(found.path, "shrank while it was read");
        CHECK_OK(write(at, {buffer_.data(), static_cast<std::size_t>(got)}));
        at += static_cast<std::uint64_t>(got);
      }
    }
    struct stat after {};
    if (::fstat(fd, &after) < 0) return failed(errno, found.path);
    if (!same_content(found.info, after)) return refused(found.path, "changed while it was read");
    return {};
  }

  Result<void> begin(const ArchiveEntry& entry) {
    if (!has_.insert(entry.path).second && entry.type != Type::directory) {
      return Error{EEXIST, fmt::format("{}: in the archive already", in_quotes(entry.path))};
    }
    if (++done_.entries > kMaxEntries) return Error{E2BIG, fmt::format("more than {} entries", kMaxEntries)};
    if (watch_.on_entry) watch_.on_entry(entry);
    CHECK_OK(go_on());
    return writer_.begin(entry);
  }

  Result<void> write(std::uint64_t offset, std::string_view bytes) {
    CHECK_OK(writer_.write(offset, bytes));
    done_.bytes += bytes.size();
    return go_on();
  }

  Result<void> go_on() const {
    if (!watch_.go_on || watch_.go_on(done_)) return {};
    return Error{ECANCELED, "interrupted"};
  }

  Writer& writer_;
  int base_;
  const Watch& watch_;
  struct stat own_ {};
  Progress done_;
  std::unordered_set<std::string> has_;
  std::map<std::pair<dev_t, ino_t>, std::string> linked_;  // files of several names: the first name that was found
  std::string buffer_ = std::string(kCopySize, '\0');
};

Result<std::vector<std::string>> clean_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    Result<std::string> clean = in(in_quotes(path), clean_path(path));
    if (!clean)
      return Error{clean.error().code, clean.error().message + "; expected one below the directory of -C"};
    out.push_back(*std::move(clean));
  }
  return out;
}

}  // namespace

Result<Progress> create(const Library& library, const ArchiveStore& store, const std::string& name,
                        const CreateOptions& options, const Watch& watch) {
  using IfExists = CreateOptions::IfExists;
  std::vector<std::string> paths = TRY(clean_paths(options.paths));
  std::optional<ArchiveStore::Found> old = TRY(store.look_up(name));
  if (old && options.if_exists == IfExists::refuse) return Error{EEXIST, old->path + ": exists already"};
  bool append = old && options.if_exists == IfExists::append;
  UniqueFd base(::open(options.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base) return system_error(errno, options.directory);

  Compression compression = options.compression.value_or(append ? old->compression : Compression::zstd);
  std::string path = store.path_of(name, compression);
  NewFile file = TRY(NewFile::create(path));
  Writer writer = TRY(in(path, Writer::create(library, file.fd(), compression)));
  Archiver archiver(writer, base.get(), watch);
  CHECK_OK(archiver.leave_out(file.fd()));
  if (append) {
    Reader reader = TRY(Reader::open(library, old->path));
    CHECK_OK(archiver.copy(reader));
  }
  CHECK_OK(walk(base.get(), paths, [&](const Found& found) { return archiver.add(found); }));
  CHECK_OK(in(path, writer.finish()));
  CHECK_OK(file.commit(old.has_value()));
  if (old && old->path != path) CHECK_OK(store.remove(*old));
  return archiver.done();
}

// ---- tree -------------------------------------------------------------------------------

namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

Result<std::vector<std::string>> names_in(int base, const std::string& path) {
  UniqueFd fd(::openat(base, path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failed(errno, path);
  std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(fd.get()));
  if (!directory) return failed(errno, path);
  static_cast<void>(fd.release());
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* each = ::readdir(directory.get());
    if (each == nullptr) break;
    std::string name = each->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) return failed(errno, path);
  std::sort(names.begin(), names.end());
  return names;
}

class Walk {
 public:
  Walk(int base, const std::function<Result<void>(const Found&)>& visit) : base_(base), visit_(visit) {}

  Result<void> at(const std::string& path) {
    if (path.empty()) return below(path);
    CHECK_OK(in(in_quotes(path), clean_path(path)));  // checks its length
    Found found{path, {}};
    if (::fstatat(base_, path.c_str(), &found.info, AT_SYMLINK_NOFOLLOW) < 0) return failed(errno, path);
    CHECK_OK(visit_(found));
    return S_ISDIR(found.info.st_mode) ? below(path) : Result<void>();
  }

 private:
  Result<void> below(const std::string& path) {
    for (const std::string& name : TRY(names_in(base_, path))) {
      CHECK_OK(at(path.empty() ? name : path + '/' + name));
    }
    return {};
  }

  int base_;
  const std::function<Result<void>(const Found&)>& visit_;
};

}  // namespace

Result<void> walk(int base, const std::vector<std::string>& paths,
                  const std::function<Result<void>(const Found&)>& visit) {
  for (const std::string& path : paths) CHECK_OK(Walk(base, visit).at(path));
  return {};
}

}  // namespace nacre::archive
