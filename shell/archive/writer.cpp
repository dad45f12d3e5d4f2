// SPDX-License-Identifier: Apache-2.0
#include "archive/writer.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <zstd.h>

#include "archive/library.hpp"
#include "base/file.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

namespace nacre::archive {

// ---- zstd -------------------------------------------------------------------------------
//
// Compression with zstd, in frames with a checksum (RFC 8878), so that a flipped bit is noticed when they are read.
// libarchive's own writer leaves the checksum out. libzstd is loaded with the first encoder.

class ZstdEncoder {
 public:
  // Writes to `fd`, which must stay open.
  static Result<ZstdEncoder> create(int fd);
  ZstdEncoder(ZstdEncoder&&) noexcept;
  ZstdEncoder& operator=(ZstdEncoder&&) noexcept;
  ~ZstdEncoder();

  Result<void> write(std::string_view bytes);
  // Ends the frame; what is written later begins a new one.
  Result<void> end_frame();

 private:
  struct State;
  explicit ZstdEncoder(std::unique_ptr<State> state);

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

struct Writer::State {
  State(const Library& loaded, int descriptor)
      : library(loaded), handle(loaded.archive_write_new()), fd(descriptor) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    Library::Utf8 utf8(library);
    if (!finished) abandon();
    library.archive_write_free(handle);
  }

  Result<void> open(Compression compression);
  static la_ssize_t take(::archive* handle, void* state, const void* data, std::size_t size);
  // The error of this file's part of the output, else libarchive's.
  [[nodiscard]] Error error() {
    return failed ? *failed : Error{library.archive_errno(handle), library.why(handle)};
  }
  Result<void> check(int code) { return code == ARCHIVE_OK ? Result<void>() : Result<void>(error()); }
  Result<void> put(std::string_view bytes);
  void abandon();

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

Result<void> Writer::State::open(Compression compression) {
  if (handle == nullptr) return Error{ENOMEM, "out of memory"};
  if (compression == Compression::zstd) zstd = TRY(ZstdEncoder::create(fd));
  compressed_inside = compression == Compression::gzip || compression == Compression::xz;
  if (compression == Compression::gzip) CHECK_OK(check(library.archive_write_add_filter_gzip(handle)));
  if (compression == Compression::xz) CHECK_OK(check(library.archive_write_add_filter_xz(handle)));
  CHECK_OK(check(library.archive_write_set_format_pax(handle)));
  // Without blocks for tapes all that was written reaches take() at once, so that a frame can end between entries.
  CHECK_OK(check(library.archive_write_set_bytes_per_block(handle, 0)));
  return check(library.archive_write_open(handle, this, nullptr, take, nullptr));
}

// Freeing the handle fills up the current entry and writes an end, unless output fails. If libarchive compresses,
// it would take long until there is output; so the handle is made to fail first, for which it leaks a few bytes.
void Writer::State::abandon() {
  if (handle == nullptr) return;
  failed = Error{ECANCELED, "abandoned"};
  if (in_entry && compressed_inside) library.archive_write_fail(handle);
}

la_ssize_t Writer::State::take(::archive* /*handle*/, void* state, const void* data, std::size_t size) {
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

Result<void> Writer::State::put(std::string_view bytes) {
  if (bytes.size() > size - offset) return Error{EFBIG, "more content than the entry has room for"};
  while (!bytes.empty()) {
    la_ssize_t taken = library.archive_write_data(handle, bytes.data(), bytes.size());
    if (taken <= 0) return error();
    bytes.remove_prefix(static_cast<std::size_t>(taken));
    offset += static_cast<std::uint64_t>(taken);
  }
  return {};
}

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
  // the warning is about a name that is not UTF-8, which has been stored unchanged
  if (code == ARCHIVE_OK || code == ARCHIVE_WARN) return {};
  return in(in_quotes(entry.path), state_->error());
}

// libarchive expects the zeros of holes too, and leaves them out itself.
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

// ---- zstd -------------------------------------------------------------------------------

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

struct ZstdEncoder::State {
  explicit State(DynamicLibrary loaded) : library(std::move(loaded)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (context != nullptr) zstd.free(context);
  }

  Result<void> run(std::string_view bytes, ZSTD_EndDirective directive);

  DynamicLibrary library;
  Functions zstd{};
  ZSTD_CCtx* context = nullptr;
  int fd = -1;
  std::string out;
};

// Passes all of `bytes` to the encoder, and what that returns to the descriptor.
Result<void> ZstdEncoder::State::run(std::string_view bytes, ZSTD_EndDirective directive) {
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  for (;;) {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    std::size_t left = zstd.compress(context, &output, &input, directive);
    if (zstd.is_error(left) != 0) return Error{EIO, fmt::format("zstd: {}", zstd.error_name(left))};
    if (int code = write_all(fd, {out.data(), output.pos}); code != 0) return system_error(code, "write");
    if (directive == ZSTD_e_end ? left == 0 : input.pos == input.size) return {};
  }
}

ZstdEncoder::ZstdEncoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
ZstdEncoder::ZstdEncoder(ZstdEncoder&&) noexcept = default;
ZstdEncoder& ZstdEncoder::operator=(ZstdEncoder&&) noexcept = default;
ZstdEncoder::~ZstdEncoder() = default;

Result<ZstdEncoder> ZstdEncoder::create(int fd) {
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

Result<void> ZstdEncoder::write(std::string_view bytes) { return state_->run(bytes, ZSTD_e_continue); }

Result<void> ZstdEncoder::end_frame() { return state_->run({}, ZSTD_e_end); }

}  // namespace nacre::archive
