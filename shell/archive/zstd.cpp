// SPDX-License-Identifier: Apache-2.0
#include "archive/zstd.hpp"

#include <zstd.h>

#include <string>

#include <fmt/format.h>

#include "archive/dynamic_library.hpp"
#include "base/file.hpp"

namespace nacre::archive {
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
