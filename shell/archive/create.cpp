// SPDX-License-Identifier: Apache-2.0
#include "archive/create.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <filesystem>
#include <unordered_set>

#include "archive/extract.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::archive {

// ---- zstd -------------------------------------------------------------------------------
//
// Compression with zstd, in frames with a checksum (RFC 8878), so that a flipped bit is noticed when they are read.
// libarchive's own writer leaves the checksum out. libzstd is loaded with the first encoder.

namespace {

struct Functions {
  decltype(&ZSTD_createCCtx) create;
  decltype(&ZSTD_freeCCtx) free;
  decltype(&ZSTD_CCtx_setParameter) set_parameter;
  decltype(&ZSTD_compressStream2) compress;
  decltype(&ZSTD_CStreamOutSize) out_size;
  decltype(&ZSTD_isError) is_error;
  decltype(&ZSTD_getErrorName) error_name;
};

Result<Functions> find_all(const DynamicLibrary& library) {
  Functions f{};
  CHECK_OK(library.find("ZSTD_createCCtx", f.create));
  CHECK_OK(library.find("ZSTD_freeCCtx", f.free));
  CHECK_OK(library.find("ZSTD_CCtx_setParameter", f.set_parameter));
  CHECK_OK(library.find("ZSTD_compressStream2", f.compress));
  CHECK_OK(library.find("ZSTD_CStreamOutSize", f.out_size));
  CHECK_OK(library.find("ZSTD_isError", f.is_error));
  CHECK_OK(library.find("ZSTD_getErrorName", f.error_name));
  return f;
}

}  // namespace

class ZstdEncoder {
 public:
  // Writes to `fd`, which must stay open.
  static Result<ZstdEncoder> create(int fd) {
    auto state = std::make_unique<State>(TRY(DynamicLibrary::load("libzstd.so.1", "libzstd1")));
    state->zstd = TRY(find_all(state->library));
    state->fd = fd;
    state->context = state->zstd.create();
    if (state->context == nullptr) return Error{ENOMEM, "zstd: out of memory"};
    std::size_t set = state->zstd.set_parameter(state->context, ZSTD_c_checksumFlag, 1);
    if (state->zstd.is_error(set) != 0) return Error{EINVAL, fmt::format("zstd: {}", state->zstd.error_name(set))};
    state->out.resize(state->zstd.out_size());
    return ZstdEncoder(std::move(state));
  }

  ZstdEncoder(ZstdEncoder&&) noexcept = default;
  ZstdEncoder& operator=(ZstdEncoder&&) noexcept = default;
  ~ZstdEncoder() = default;

  Result<void> write(std::string_view bytes) { return state_->run(bytes, ZSTD_e_continue); }
  // Ends the frame; what is written later begins a new one.
  Result<void> end_frame() { return state_->run({}, ZSTD_e_end); }

 private:
  struct State : Noncopyable {
    explicit State(DynamicLibrary loaded) : library(std::move(loaded)) {}
    ~State() {
      if (context != nullptr) zstd.free(context);
    }

    // Passes all of `bytes` to the encoder, and what that returns to the descriptor.
    Result<void> run(std::string_view bytes, ZSTD_EndDirective directive) {
      ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
      for (;;) {
        ZSTD_outBuffer output{out.data(), out.size(), 0};
        std::size_t left = zstd.compress(context, &output, &input, directive);
        if (zstd.is_error(left) != 0) return Error{EIO, fmt::format("zstd: {}", zstd.error_name(left))};
        if (int code = write_all(fd, {out.data(), output.pos}); code != 0) return system_error(code, "write");
        if (directive == ZSTD_e_end ? left == 0 : input.pos == input.size) return {};
      }
    }

    DynamicLibrary library;
    Functions zstd{};
    ZSTD_CCtx* context = nullptr;
    int fd = -1;
    std::string out;
  };

  explicit ZstdEncoder(std::unique_ptr<State> state) : state_(std::move(state)) {}

  std::unique_ptr<State> state_;
};

// ---- writer -----------------------------------------------------------------------------

namespace {

constexpr std::size_t kZeros = std::size_t{4} << 20;  // bytes of a hole that are passed on at a time

struct Named {
  std::string_view name;
  std::string_view extension;
};

constexpr Named named(Compression compression) {
  switch (compression) {
    case Compression::none: return {"none", ".tar"};
    case Compression::gzip: return {"gzip", ".tar.gz"};
    case Compression::zstd: return {"zstd", ".tar.zst"};
    case Compression::xz: return {"xz", ".tar.xz"};
  }
  return {};
}

unsigned type_of(Type type) {
  switch (type) {
    case Type::directory: return AE_IFDIR;
    case Type::symlink: return AE_IFLNK;
    case Type::file:
    case Type::hard_link: break;
  }
  return AE_IFREG;
}

}  // namespace

std::string_view name_of(Compression compression) { return named(compression).name; }

std::string_view extension_of(Compression compression) { return named(compression).extension; }

std::optional<Compression> compression_named(std::string_view name) {
  for (Compression each : kCompressions) {
    if (name_of(each) == name) return each;
  }
  return std::nullopt;
}

struct Writer::State : Noncopyable {
  State(const Library& loaded, int descriptor)
      : library(loaded), handle(loaded.archive_write_new()), fd(descriptor) {}
  ~State() {
    Library::Utf8 utf8(library);
    if (!finished) abandon();
    library.archive_write_free(handle);
  }

  Result<void> open(Compression compression) {
    if (handle == nullptr) return Error{ENOMEM, "out of memory"};
    if (compression == Compression::zstd) zstd = TRY(ZstdEncoder::create(fd));
    compressed_inside = compression == Compression::gzip || compression == Compression::xz;
    if (compression == Compression::gzip) CHECK_OK(check(library.archive_write_add_filter_gzip(handle)));
    if (compression == Compression::xz) CHECK_OK(check(library.archive_write_add_filter_xz(handle)));
    CHECK_OK(check(library.archive_write_set_format_pax(handle)));
    // Without blocks for tapes everything that is written reaches take() at once, so that a frame can end between
    // entries.
    CHECK_OK(check(library.archive_write_set_bytes_per_block(handle, 0)));
    return check(library.archive_write_open(handle, this, nullptr, take, nullptr));
  }

  static la_ssize_t take(::archive* /*handle*/, void* state, const void* data, std::size_t size) {
    auto& self = *static_cast<State*>(state);
    std::string_view bytes(static_cast<const char*>(data), size);
    if (self.failed) return -1;
    if (self.zstd) {
      if (Result<void> written = self.zstd->write(bytes); !written) self.failed = written.error();
    } else if (int code = write_all(self.fd, bytes); code != 0) {
      self.failed = system_error(code, "write");
    }
    return self.failed ? -1 : static_cast<la_ssize_t>(size);
  }

  // The error of this file's own part of the output, or else libarchive's.
  [[nodiscard]] Error error() {
    return failed ? *failed : Error{library.archive_errno(handle), library.why(handle)};
  }
  Result<void> check(int code) { return code == ARCHIVE_OK ? Result<void>() : Result<void>(error()); }

  Result<void> put(std::string_view bytes) {
    if (bytes.size() > size - offset) return Error{EFBIG, "more content than the entry has room for"};
    while (!bytes.empty()) {
      la_ssize_t taken = library.archive_write_data(handle, bytes.data(), bytes.size());
      if (taken <= 0) return error();
      bytes.remove_prefix(static_cast<std::size_t>(taken));
      offset += static_cast<std::uint64_t>(taken);
    }
    return {};
  }

  // Freeing the handle fills up the current entry and writes an end, unless output fails. If libarchive compresses,
  // it would take long until there is output; so the handle is made to fail first, for which it leaks a few bytes.
  void abandon() {
    if (handle == nullptr) return;
    failed = Error{ECANCELED, "abandoned"};
    if (in_entry && compressed_inside) library.archive_write_fail(handle);
  }

  const Library& library;
  ::archive* handle;
  int fd;
  std::optional<ZstdEncoder> zstd;
  std::optional<Error> failed;
  std::uint64_t size = 0;          // of the current file
  std::uint64_t offset = 0;        // in it
  std::string zeros;               // made when they are needed
  bool compressed_inside = false;  // libarchive compresses
  bool in_entry = false;
  bool finished = false;
};

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const Library& library, int fd, Compression compression) {
  auto state = std::make_unique<State>(library, fd);
  CHECK_OK(state->open(compression));
  return Writer(std::move(state));
}

Result<void> Writer::begin(const ArchiveEntry& entry) {
  const Library& library = state_->library;
  Library::Utf8 utf8(library);
  auto free = [&library](::archive_entry* raw) { library.archive_entry_free(raw); };
  std::unique_ptr<::archive_entry, decltype(free)> raw(library.archive_entry_new(), free);
  if (!raw) return Error{ENOMEM, "out of memory"};
  library.archive_entry_set_pathname(raw.get(), entry.path.c_str());
  library.archive_entry_set_filetype(raw.get(), type_of(entry.type));
  library.archive_entry_set_perm(raw.get(), entry.mode);
  library.archive_entry_set_mtime(raw.get(), entry.mtime.tv_sec, entry.mtime.tv_nsec);
  library.archive_entry_set_size(raw.get(), static_cast<la_int64_t>(entry.size));
  if (entry.type == Type::symlink) library.archive_entry_set_symlink(raw.get(), entry.target.c_str());
  if (entry.type == Type::hard_link) library.archive_entry_set_hardlink(raw.get(), entry.target.c_str());
  for (const Extent& each : entry.extents) {
    library.archive_entry_sparse_add_entry(raw.get(), static_cast<la_int64_t>(each.offset),
                                           static_cast<la_int64_t>(each.size));
  }
  state_->size = entry.size;
  state_->offset = 0;
  state_->in_entry = true;
  int code = library.archive_write_header(state_->handle, raw.get());
  // The warning is about a name that is not UTF-8, which was stored unchanged.
  if (code == ARCHIVE_OK || code == ARCHIVE_WARN) return {};
  return in(in_quotes(entry.path), state_->error());
}

// libarchive also expects the zeros of holes, and leaves them out itself.
Result<void> Writer::write(std::uint64_t offset, std::string_view bytes) {
  while (state_->offset < offset) {
    if (state_->zeros.empty()) state_->zeros.resize(kZeros);
    auto hole = std::min<std::uint64_t>(offset - state_->offset, kZeros);
    CHECK_OK(state_->put({state_->zeros.data(), static_cast<std::size_t>(hole)}));
  }
  return state_->put(bytes);
}

Result<void> Writer::end() {
  CHECK_OK(write(state_->size, {}));
  CHECK_OK(state_->check(state_->library.archive_write_finish_entry(state_->handle)));
  state_->in_entry = false;
  return {};
}

Result<void> Writer::finish() {
  // The end mark has a frame of its own: a reader that comes to it has read, and checked, the whole frame before.
  if (state_->zstd) CHECK_OK(state_->zstd->end_frame());
  state_->finished = true;
  CHECK_OK(state_->check(state_->library.archive_write_close(state_->handle)));
  if (state_->zstd) CHECK_OK(state_->zstd->end_frame());
  return {};
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesInError = 10;
constexpr int kTemporaryTries = 100;

std::optional<std::string_view> without_extension(std::string_view file) {
  for (Compression each : kCompressions) {
    if (file.ends_with(extension_of(each))) return file.substr(0, file.size() - extension_of(each).size());
  }
  return std::nullopt;
}

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return "no archives";
  std::string out = names.size() == 1 ? "only " : "";
  for (std::size_t i = 0; i < std::min(names.size(), kNamesInError); ++i) {
    if (i > 0) out += ", ";
    out += in_quotes(names[i]);
  }
  if (names.size() > kNamesInError) out += fmt::format(" and {} more", names.size() - kNamesInError);
  return out;
}

}  // namespace

Result<ArchiveStore> ArchiveStore::of_environment(const Variable& variable) {
  constexpr std::string_view kBelowData = "/nacre/archives";
  constexpr std::string_view kBelowHome = "/.local/share/nacre/archives";
  constexpr std::string_view kHome = "HOME";
  struct Source {
    const char* name;
    std::string_view below;
  };
  for (const auto& [name, below] :
       {Source{"NACRE_ARCHIVE_DIR", ""}, Source{"XDG_DATA_HOME", kBelowData}, Source{kHome.data(), kBelowHome}}) {
    std::optional<std::string> value = variable(name);
    if (!value || value->empty()) continue;
    if (!value->starts_with('/')) {
      return invalid(fmt::format("{}: expected an absolute path, got {}", name, in_quotes(*value)));
    }
    if (std::error_code error; name == kHome && !fs::is_directory(*value, error))
      return Error{ENOENT, fmt::format("HOME: {} is no directory: set NACRE_ARCHIVE_DIR", in_quotes(*value))};
    return ArchiveStore(*value + std::string(below));
  }
  return Error{ENOENT,
               "the directory of archives is not known: NACRE_ARCHIVE_DIR, XDG_DATA_HOME and HOME are not set"};
}

Result<void> ArchiveStore::check_name(std::string_view name) {
  auto bad = [name](std::string_view why) {
    return invalid(fmt::format("archive name {}: {}", in_quotes(name), why));
  };
  if (name.empty()) return bad("expected a name");
  if (name.size() > kMaxName) return bad(fmt::format("expected at most {} bytes, got {}", kMaxName, name.size()));
  if (name.starts_with('.')) return bad("expected a name that does not start with '.'");
  auto is_bad = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_bad))
    return bad("expected a name without '/' and control characters");
  if (auto plain = without_extension(name)) {
    return bad(fmt::format("expected it without its extension: {}", in_quotes(*plain)));
  }
  return {};
}

std::string ArchiveStore::path_of(const std::string& name, Compression compression) const {
  return fmt::format("{}/{}{}", directory_, name, extension_of(compression));
}

Result<std::optional<ArchiveStore::Found>> ArchiveStore::look_up(const std::string& name) const {
  CHECK_OK(check_name(name));
  std::optional<Found> found;
  for (Compression each : kCompressions) {
    std::string path = path_of(name, each);
    struct stat info {};
    if (::stat(path.c_str(), &info) < 0) {
      if (errno == ENOENT || errno == ENOTDIR) continue;
      return system_error(errno, path);
    }
    if (found) {
      return invalid(
          fmt::format("two archives are called {}: {} and {}; remove one", in_quotes(name), found->path, path));
    }
    found = Found{std::move(path), each};
  }
  return found;
}

Result<ArchiveStore::Found> ArchiveStore::find(const std::string& name) const {
  if (std::optional<Found> found = TRY(look_up(name))) return *std::move(found);
  auto there = names();
  std::string what = there ? "there: " + listed(*there) : there.error().message;
  return Error{ENOENT, fmt::format("no archive {} in {} ({})", in_quotes(name), directory_, what)};
}

Result<std::vector<std::string>> ArchiveStore::names() const {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator each(directory_, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    std::string file = each->path().filename().native();
    auto name = without_extension(file);
    if (name && check_name(*name)) out.emplace_back(*name);
  }
  if (error && error != std::errc::no_such_file_or_directory) return system_error(error.value(), directory_);
  std::sort(out.begin(), out.end());
  return out;
}

Result<void> ArchiveStore::remove(const Found& found) const {
  if (::unlink(found.path.c_str()) < 0) return system_error(errno, "cannot remove " + found.path);
  return {};
}

Result<NewFile> NewFile::create(const std::string& path) {
  fs::path target(path);
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) return system_error(error.value(), "cannot make " + target.parent_path().native());
  for (int tries = 0; tries < kTemporaryTries; ++tries) {
    std::uint32_t random = 0;
    if (::getrandom(&random, sizeof random, 0) < 0) return system_error(errno, "getrandom");
    std::string temporary = target.parent_path() / fmt::format(".{}.{:08x}", target.filename().native(), random);
    UniqueFd fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd) return NewFile(std::move(fd), std::move(temporary), path);
    if (errno != EEXIST) return system_error(errno, "cannot write to " + target.parent_path().native());
  }
  return Error{EEXIST, fmt::format("cannot find a free name in {}", target.parent_path().native())};
}

NewFile::~NewFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

Result<void> NewFile::commit(bool replace) {
  if (::fsync(fd_.get()) < 0) return system_error(errno, path_);
  int done = replace ? ::rename(temporary_.c_str(), path_.c_str()) : ::link(temporary_.c_str(), path_.c_str());
  if (done < 0) return system_error(errno, path_);
  if (!replace) ::unlink(temporary_.c_str());
  fd_.reset();
  return {};
}

// ---- tree -------------------------------------------------------------------------------
//
// The files of a tree, in an order that is the same each time.

struct Found {
  std::string path;     // in the form of clean_path()
  struct stat info {};  // of the file itself, not of a link's target
};

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

// Calls `visit` for each of `paths`, which are below the directory that `base` is open for, and for everything
// below them: a directory first, then its content by name. "" is `base` itself, which is not visited. Symbolic
// links are not followed. Errors name the path.
Result<void> walk(int base, const std::vector<std::string>& paths,
                  const std::function<Result<void>(const Found&)>& visit) {
  for (const std::string& path : paths) CHECK_OK(Walk(base, visit).at(path));
  return {};
}

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

}  // namespace nacre::archive
