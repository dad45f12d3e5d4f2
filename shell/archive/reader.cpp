// SPDX-License-Identifier: Apache-2.0
#include "archive/reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "archive/path.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

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

struct Reader::State {
  State(const Library& loaded, std::string archive_name)
      : library(loaded), name(std::move(archive_name)), handle(loaded.archive_read_new()) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    Library::Utf8 utf8(library);
    library.archive_read_free(handle);
  }

  Result<void> prepare();
  [[nodiscard]] Error not_opened() const {
    return in(name, invalid("no tar archive (plain, gzip, zstd or xz), or a damaged one: " + library.why(handle)));
  }
  [[nodiscard]] Error damaged(std::string_view why) const {
    return in(name, Error{EBADMSG, fmt::format("damaged or cut off: {}", why)});
  }
  [[nodiscard]] Result<void> check_end() const;
  [[nodiscard]] Result<ArchiveEntry> entry_of(::archive_entry* raw) const;
  [[nodiscard]] Result<void> take_type(::archive_entry* raw, ArchiveEntry& entry) const;
  void take_extents(::archive_entry* raw, ArchiveEntry& entry) const;

  const Library& library;
  std::string name;
  ::archive* handle;
  UniqueFd fd;
  std::uint64_t max_entries = kMaxEntries;
  std::uint64_t entries = 0;
  std::uint64_t size = 0;  // of the current file
  std::uint64_t read = 0;  // the end of its blocks so far
};

// Enables only what is read in this process: some of libarchive's other filters start programs.
Result<void> Reader::State::prepare() {
  if (handle == nullptr) return in(name, Error{ENOMEM, "out of memory"});
  for (auto support : {library.archive_read_support_format_tar, library.archive_read_support_filter_gzip,
                       library.archive_read_support_filter_zstd, library.archive_read_support_filter_xz}) {
    CHECK_OK(in(name, library.check(handle, support(handle))));
  }
  return {};
}

// libarchive treats the end of its input as the end of the archive. A complete archive ends with blocks of zeros,
// of which at least one has been read after the last entry.
Result<void> Reader::State::check_end() const {
  std::int64_t after_last = library.archive_filter_bytes(handle, 0) - library.archive_read_header_position(handle);
  if (after_last < kTarBlock) return damaged("it has no end mark");
  return {};
}

Result<ArchiveEntry> Reader::State::entry_of(::archive_entry* raw) const {
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

Result<void> Reader::State::take_type(::archive_entry* raw, ArchiveEntry& entry) const {
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

void Reader::State::take_extents(::archive_entry* raw, ArchiveEntry& entry) const {
  if (entry.type != Type::file || library.archive_entry_sparse_reset(raw) == 0) return;
  la_int64_t offset = 0;
  la_int64_t bytes = 0;
  while (library.archive_entry_sparse_next(raw, &offset, &bytes) == ARCHIVE_OK) {
    if (bytes <= 0 || offset < 0) continue;
    entry.extents.push_back({static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(bytes)});
  }
  if (entry.extents.empty()) entry.extents.push_back({});
}

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

}  // namespace nacre::archive
