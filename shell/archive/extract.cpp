// SPDX-License-Identifier: Apache-2.0
#include "archive/extract.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::archive {
namespace {

constexpr std::size_t kReadSize = std::size_t{256} << 10;
constexpr std::int64_t kTarBlock = 512;

std::string_view name_of_type(mode_t type) {
  switch (type) {
    case AE_IFCHR: return "a character device";
    case AE_IFBLK: return "a block device";
    case AE_IFIFO: return "a fifo";
    case AE_IFSOCK: return "a socket";
    default: return "of a type that is not known here";
  }
}

}  // namespace

struct Reader::State : Noncopyable {
  State(const Library& loaded, std::string archive_name)
      : library(loaded), name(std::move(archive_name)), handle(loaded.archive_read_new()) {}
  ~State() {
    Library::Utf8 utf8(library);
    library.archive_read_free(handle);
  }

  // Enables only what is read in this process: some of libarchive's other filters start programs.
  Result<void> prepare() {
    if (handle == nullptr) return in(name, Error{ENOMEM, "out of memory"});
    for (auto support : {library.archive_read_support_format_tar, library.archive_read_support_filter_gzip,
                         library.archive_read_support_filter_zstd, library.archive_read_support_filter_xz}) {
      CHECK_OK(in(name, library.check(handle, support(handle))));
    }
    return {};
  }

  [[nodiscard]] Error not_opened() const {
    return in(name, invalid("no tar archive (plain, gzip, zstd or xz), or a damaged one: " + library.why(handle)));
  }
  [[nodiscard]] Error damaged(std::string_view why) const {
    return in(name, Error{EBADMSG, fmt::format("damaged or cut off: {}", why)});
  }

  // libarchive treats the end of its input as the end of the archive. A complete archive ends with blocks of zeros,
  // of which at least one has been read after the last entry.
  [[nodiscard]] Result<void> check_end() const {
    std::int64_t after_last =
        library.archive_filter_bytes(handle, 0) - library.archive_read_header_position(handle);
    if (after_last < kTarBlock) return damaged("it has no end mark");
    return {};
  }

  [[nodiscard]] Result<ArchiveEntry> entry_of(::archive_entry* raw) const {
    const char* path = library.archive_entry_pathname(raw);
    if (path == nullptr) return in(name, invalid("an entry's name is no text in UTF-8"));
    auto refused = [&](const Error& why) {
      return in(name, Error{why.code, fmt::format("{}: refused: {}", in_quotes(path), why.message)});
    };
    auto clean = clean_path(path);
    if (!clean) return refused(clean.error());
    ArchiveEntry entry;
    entry.path = *std::move(clean);
    entry.mtime.tv_sec = library.archive_entry_mtime(raw);
    entry.mtime.tv_nsec = library.archive_entry_mtime_nsec(raw);
    if (Result<void> typed = take_type(raw, entry); !typed) return refused(typed.error());
    if (entry.path.empty() && entry.type != Type::directory) return refused(invalid("it has no name"));
    take_extents(raw, entry);
    return entry;
  }

  [[nodiscard]] Result<void> take_type(::archive_entry* raw, ArchiveEntry& entry) const {
    mode_t mode = library.archive_entry_perm(raw);
    entry.mode = mode & 0777;
    if (const char* target = library.archive_entry_hardlink(raw); target != nullptr) {
      entry.type = Type::hard_link;
      entry.target = TRY(in(fmt::format("a hard link to {}", in_quotes(target)), clean_path(target)));
      return {};
    }
    switch (library.archive_entry_filetype(raw)) {
      case AE_IFDIR: entry.type = Type::directory; return {};
      case AE_IFLNK: {
        entry.type = Type::symlink;
        const char* target = library.archive_entry_symlink(raw);
        entry.target = target != nullptr ? target : "";
        return check_symlink(entry.path, entry.target);
      }
      case AE_IFREG: break;
      default: return invalid(std::string(name_of_type(library.archive_entry_filetype(raw))));
    }
    if ((mode & (S_ISUID | S_ISGID)) != 0) return invalid("a file with a set-user-ID or set-group-ID bit");
    std::int64_t bytes = library.archive_entry_size(raw);
    if (bytes < 0) return invalid("its size is negative");
    entry.size = static_cast<std::uint64_t>(bytes);
    return {};
  }

  void take_extents(::archive_entry* raw, ArchiveEntry& entry) const {
    if (entry.type != Type::file || library.archive_entry_sparse_reset(raw) == 0) return;
    la_int64_t offset = 0;
    la_int64_t bytes = 0;
    while (library.archive_entry_sparse_next(raw, &offset, &bytes) == ARCHIVE_OK) {
      if (bytes <= 0 || offset < 0) continue;
      entry.extents.push_back({static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(bytes)});
    }
    if (entry.extents.empty()) entry.extents.push_back({});
  }

  const Library& library;
  std::string name;
  ::archive* handle;
  UniqueFd fd;
  std::uint64_t max_entries = kMaxEntries;
  std::uint64_t entries = 0;
  std::uint64_t size = 0;  // of the current file
  std::uint64_t read = 0;  // the end of its blocks so far
};

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

std::unique_ptr<Reader::State> Reader::make(const Library& library, std::string name) {
  return std::make_unique<State>(library, std::move(name));
}

Result<Reader> Reader::open(const Library& library, const std::string& path, std::uint64_t max_entries) {
  auto state = make(library, path);
  CHECK_OK(state->prepare());
  state->max_entries = max_entries;
  state->fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!state->fd) return system_error(errno, path);
  struct stat info {};
  if (::fstat(state->fd.get(), &info) < 0) return system_error(errno, path);
  if (!S_ISREG(info.st_mode)) return in(path, invalid("no regular file"));
  Library::Utf8 utf8(library);
  int opened = library.archive_read_open_fd(state->handle, state->fd.get(), kReadSize);
  if (opened != ARCHIVE_OK) return state->not_opened();
  return Reader(std::move(state));
}

Result<Reader> Reader::of_memory(const Library& library, std::string_view bytes, std::string name) {
  auto state = make(library, std::move(name));
  CHECK_OK(state->prepare());
  Library::Utf8 utf8(library);
  int opened = library.archive_read_open_memory(state->handle, bytes.data(), bytes.size());
  if (opened != ARCHIVE_OK) return state->not_opened();
  return Reader(std::move(state));
}

Result<std::optional<ArchiveEntry>> Reader::next() {
  State& state = *state_;
  Library::Utf8 utf8(state.library);
  for (;;) {
    ::archive_entry* raw = nullptr;
    int code = state.library.archive_read_next_header(state.handle, &raw);
    if (code == ARCHIVE_EOF) {
      CHECK_OK(state.check_end());
      return std::optional<ArchiveEntry>();
    }
    if (code != ARCHIVE_OK) return state.damaged(state.library.why(state.handle));
    if (++state.entries > state.max_entries) {
      return in(state.name, Error{E2BIG, fmt::format("more than {} entries", state.max_entries)});
    }
    ArchiveEntry entry = TRY(state.entry_of(raw));
    state.size = entry.size;
    state.read = 0;
    if (!entry.path.empty()) return std::optional<ArchiveEntry>(std::move(entry));
  }
}

Result<std::optional<Reader::Block>> Reader::next_block() {
  State& state = *state_;
  const void* data = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  int code = state.library.archive_read_data_block(state.handle, &data, &size, &offset);
  if (code == ARCHIVE_EOF) return std::optional<Block>();
  if (code != ARCHIVE_OK) return state.damaged(state.library.why(state.handle));
  auto at = static_cast<std::uint64_t>(offset);
  if (offset < 0 || at < state.read || at > state.size || size > state.size - at) {
    return state.damaged("content outside of its file");
  }
  state.read = at + size;
  return std::optional<Block>({at, {static_cast<const char*>(data), size}});
}

const std::string& Reader::name() const { return state_->name; }

namespace {

class Extraction {
 public:
  Extraction(Reader& reader, ExtractDestination&& destination, const ExtractOptions& options, const Watch& watch)
      : reader_(reader), destination_(std::move(destination)), options_(options), watch_(watch) {}

  Result<Progress> run() {
    Result<void> extracted = extract_all();
    if (extracted) return done_;
    if (options_.all_or_nothing && extracted.error().code != ECANCELED) destination_.undo();
    return std::move(extracted).error();
  }

 private:
  template <typename T>
  Result<T> here(Result<T> result) const {
    return in(reader_.name(), std::move(result));
  }

  Result<void> extract_all() {
    while (std::optional<ArchiveEntry> entry = TRY(reader_.next())) {
      if (options_.pattern && !glob_match(*options_.pattern, entry->path)) continue;
      ++done_.entries;
      if (watch_.on_entry) watch_.on_entry(*entry);
      CHECK_OK(go_on());
      CHECK_OK(extract(*entry));
    }
    return here(destination_.finish());
  }

  Result<void> go_on() const {
    if (!watch_.go_on || watch_.go_on(done_)) return {};
    return here(Result<void>(Error{ECANCELED, "interrupted"}));
  }

  Result<void> extract(const ArchiveEntry& entry) {
    switch (entry.type) {
      case Type::directory: return here(destination_.add_directory(entry));
      case Type::symlink: return here(destination_.add_symlink(entry));
      case Type::hard_link: return here(destination_.add_hard_link(entry));
      case Type::file: break;
    }
    UniqueFd file = TRY(here(destination_.open_file(entry)));
    Result<void> copied = copy(entry, file.get());
    if (copied) copied = here(destination_.close_file(std::move(file), entry));
    if (!copied) destination_.discard_file(entry);
    return copied;
  }

  Result<void> copy(const ArchiveEntry& entry, int fd) {
    while (std::optional<Reader::Block> block = TRY(reader_.next_block())) {
      done_.bytes += block->bytes.size();
      if (options_.max_bytes && options_.bytes_before + done_.bytes > *options_.max_bytes) {
        return here(
            Result<void>(Error{EFBIG, fmt::format("{}: more content than {} bytes ({})", in_quotes(entry.path),
                                                  *options_.max_bytes, options_.limited_by)}));
      }
      if (int code = write_all_at(fd, block->bytes, block->offset); code != 0) {
        return here(Result<void>(system_error(code, in_quotes(entry.path))));
      }
      CHECK_OK(go_on());
    }
    return {};
  }

  Reader& reader_;
  ExtractDestination destination_;
  const ExtractOptions& options_;
  const Watch& watch_;
  Progress done_;
};

}  // namespace

Result<Progress> extract(Reader& reader, const ExtractOptions& options, const Watch& watch) {
  ExtractDestination destination = TRY(in(
      "cannot extract to", ExtractDestination::open(options.directory, options.existing, options.all_or_nothing)));
  return Extraction(reader, std::move(destination), options, watch).run();
}

// ---- destination ------------------------------------------------------------------------

namespace {

constexpr mode_t kOwnerAll = 0700;
constexpr mode_t kOwnerWrite = 0600;

bool is_symlink(int parent, const char* name) {
  struct stat info {};
  return ::fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

Error exists(std::string_view path) {
  return Error{EEXIST, fmt::format("{}: exists already, and overwriting was not asked for", in_quotes(path))};
}

// All parts but the last, and the position of the last.
std::pair<std::string_view, std::size_t> parent_of(std::string_view path) {
  std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {{}, 0};
  return {path.substr(0, slash), slash + 1};
}

int set_times(int fd, const timespec& mtime) {
  const timespec times[2] = {{0, UTIME_OMIT}, mtime};
  return ::futimens(fd, times);
}

}  // namespace

Result<ExtractDestination> ExtractDestination::open(const std::string& directory, Existing existing,
                                                    bool undoable) {
  UniqueFd root(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return system_error(errno, directory);
  return ExtractDestination(std::move(root), existing, undoable);
}

Result<UniqueFd> ExtractDestination::step(int parent, const std::string& name, std::string_view path, bool make) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(::openat(parent, name.c_str(), kFlags));
  if (!fd && errno == ENOENT && make) {
    if (::mkdirat(parent, name.c_str(), 0777) == 0) {
      made_on_the_way_.emplace(path);
      made(path);
    } else if (errno != EEXIST) {
      return failed(errno, path);
    }
    fd = UniqueFd(::openat(parent, name.c_str(), kFlags));
  }
  if (fd) return fd;
  int code = errno;
  if (!is_symlink(parent, name.c_str())) return failed(code, path);
  return Error{ELOOP,
               fmt::format("{}: refused: a symbolic link stands where a directory is to be", in_quotes(path))};
}

Result<UniqueFd> ExtractDestination::walk(std::string_view path, bool make) {
  UniqueFd at(::openat(root_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at) return failed(errno, ".");
  for (std::size_t begin = 0; begin < path.size();) {
    std::size_t end = std::min(path.find('/', begin), path.size());
    at = TRY(step(at.get(), std::string(path.substr(begin, end - begin)), path.substr(0, end), make));
    begin = end + 1;
  }
  return at;
}

Result<ExtractDestination::Place> ExtractDestination::place_of(const std::string& path) {
  auto [parent, name_at] = parent_of(path);
  if (!parent_ || parent != parent_path_) {
    parent_ = TRY(walk(parent, true));
    parent_path_ = parent;
  }
  return Place{parent_.get(), path.c_str() + name_at};
}

// Makes room for a file or a link. Never removes a directory, whose content must not be lost.
Result<void> ExtractDestination::clear(const Place& place, const std::string& path) const {
  if (existing_ == Existing::refuse || ::unlinkat(place.parent, place.name, 0) == 0 || errno == ENOENT) return {};
  return failed(errno, path);
}

Result<void> ExtractDestination::add_directory(const ArchiveEntry& entry) {
  Place place = TRY(place_of(entry.path));
  bool is_ours = ::mkdirat(place.parent, place.name, kOwnerAll) == 0;
  if (!is_ours && errno != EEXIST) return failed(errno, entry.path);
  if (is_ours) made(entry.path);
  if (!is_ours) TRY(step(place.parent, place.name, entry.path, false));
  is_ours = made_on_the_way_.erase(entry.path) > 0 || is_ours;
  if (is_ours || existing_ == Existing::replace) directories_.push_back(entry);
  return {};
}

Result<UniqueFd> ExtractDestination::open_file(const ArchiveEntry& entry) {
  Place place = TRY(place_of(entry.path));
  CHECK_OK(clear(place, entry.path));
  UniqueFd file(
      ::openat(place.parent, place.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerWrite));
  if (file) {
    made(entry.path);
    return file;
  }
  return errno == EEXIST ? exists(entry.path) : failed(errno, entry.path);
}

Result<void> ExtractDestination::close_file(UniqueFd file, const ArchiveEntry& entry) {
  auto size = static_cast<off_t>(entry.size);
  if (size < 0 || ::ftruncate(file.get(), size) < 0) return failed(size < 0 ? EFBIG : errno, entry.path);
  if (::fchmod(file.get(), entry.mode) < 0) return failed(errno, entry.path);
  if (set_times(file.get(), entry.mtime) < 0) return failed(errno, entry.path);
  // A network file system may report an error only now
  if (::close(file.release()) < 0) return failed(errno, entry.path);
  return {};
}

void ExtractDestination::discard_file(const ArchiveEntry& entry) {
  if (auto place = place_of(entry.path)) ::unlinkat(place->parent, place->name, 0);
}

Result<void> ExtractDestination::add_symlink(const ArchiveEntry& entry) {
  Place place = TRY(place_of(entry.path));
  CHECK_OK(clear(place, entry.path));
  if (::symlinkat(entry.target.c_str(), place.parent, place.name) < 0) {
    return errno == EEXIST ? exists(entry.path) : failed(errno, entry.path);
  }
  made(entry.path);
  const timespec times[2] = {{0, UTIME_OMIT}, entry.mtime};
  if (::utimensat(place.parent, place.name, times, AT_SYMLINK_NOFOLLOW) < 0) return failed(errno, entry.path);
  return {};
}

Result<void> ExtractDestination::add_hard_link(const ArchiveEntry& entry) {
  auto refused = [&](std::string_view why) {
    return invalid(fmt::format("{}: refused: a hard link to {}, which {}", in_quotes(entry.path),
                               in_quotes(entry.target), why));
  };
  if (entry.target == entry.path) return refused("is itself");
  auto [parent, name_at] = parent_of(entry.target);
  Result<UniqueFd> from = walk(parent, false);
  const char* name = entry.target.c_str() + name_at;
  struct stat info {};
  if (!from || ::fstatat(from->get(), name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
    if (!from && from.error().code == ELOOP) return refused("is behind a symbolic link");
    return refused("is not there");
  }
  if (!S_ISREG(info.st_mode)) return refused("is no regular file");
  Place place = TRY(place_of(entry.path));
  CHECK_OK(clear(place, entry.path));
  if (::linkat(from->get(), name, place.parent, place.name, 0) == 0) {
    made(entry.path);
    return {};
  }
  return errno == EEXIST ? exists(entry.path) : failed(errno, entry.path);
}

// From the lowest up: once a directory cannot be searched, those below it cannot be reached.
Result<void> ExtractDestination::finish() {
  std::stable_sort(directories_.begin(), directories_.end(),
                   [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.path > b.path; });
  for (const ArchiveEntry& entry : directories_) {
    auto [parent, name_at] = parent_of(entry.path);
    UniqueFd above = TRY(walk(parent, false));
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd fd(::openat(above.get(), entry.path.c_str() + name_at, kFlags));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) < 0) return failed(errno, entry.path);
    mode_t inherited = info.st_mode & S_ISGID;  // from the directory above, not from the archive
    if (::fchmod(fd.get(), entry.mode | inherited) < 0) return failed(errno, entry.path);
    if (set_times(fd.get(), entry.mtime) < 0) return failed(errno, entry.path);
  }
  directories_.clear();
  return {};
}

// The last one first, so that a directory is empty when its turn comes.
void ExtractDestination::undo() {
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) {
    auto [parent, name_at] = parent_of(*path);
    Result<UniqueFd> above = walk(parent, false);
    if (!above) continue;
    const char* name = path->c_str() + name_at;
    if (::unlinkat(above->get(), name, 0) < 0) ::unlinkat(above->get(), name, AT_REMOVEDIR);
  }
  made_.clear();
}

}  // namespace nacre::archive
