// SPDX-License-Identifier: Apache-2.0
//
// Writes a tar archive in pax format (POSIX.1-2001; holes as GNU.sparse 1.0), compressed or not.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "archive/entry.hpp"
#include "archive/library.hpp"
#include "base/result.hpp"

namespace nacre::archive {

// Readers of zstd and xz notice each flipped bit; those of the others notice only damage to the format.
enum class Compression { none, gzip, zstd, xz };
inline constexpr std::array kCompressions{Compression::none, Compression::gzip, Compression::zstd, Compression::xz};

[[nodiscard]] std::string_view name_of(Compression compression);       // "none", "gzip", ...
[[nodiscard]] std::string_view extension_of(Compression compression);  // ".tar", ".tar.gz", ".tar.zst", ".tar.xz"
[[nodiscard]] std::optional<Compression> compression_named(std::string_view name);

class Writer {
 public:
  // `library` must outlive it, and `fd` stay open. Without finish() the output is no archive.
  static Result<Writer> create(const Library& library, int fd, Compression compression);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  // For each entry: begin(); for a file write() all of its extents, in ascending order; end().
  Result<void> begin(const ArchiveEntry& entry);
  Result<void> write(std::uint64_t offset, std::string_view bytes);
  Result<void> end();
  Result<void> finish();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace nacre::archive
