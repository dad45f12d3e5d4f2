// SPDX-License-Identifier: Apache-2.0
//
// Reads a tar archive (ustar, pax or GNU), plain or compressed with gzip, zstd or xz, whatever its file is called,
// from its beginning to its end.
//
// It returns only what is safe to extract. The first entry that is not is an error `ARCHIVE: 'ENTRY': refused:
// WHY`: a path that clean_path() or check_symlink() refuses, a hard link to such a path, a device, a fifo, a
// socket, a file with a set-user-ID or set-group-ID bit. More entries than the limit are an error too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "archive/entry.hpp"
#include "archive/library.hpp"
#include "base/result.hpp"

namespace nacre::archive {

inline constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 24;  // of an archive that is read or written

class Reader {
 public:
  // `library` must outlive it. Each error starts with `path`.
  static Result<Reader> open(const Library& library, const std::string& path,
                             std::uint64_t max_entries = kMaxEntries);
  // The same from memory, which must outlive it; errors have `name` in place of a path.
  static Result<Reader> of_memory(const Library& library, std::string_view bytes, std::string name);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  // The next entry; none at the end. An archive without a proper end was cut off, and is an error.
  Result<std::optional<ArchiveEntry>> next();

  struct Block {
    std::uint64_t offset = 0;  // in the file
    std::string_view bytes;    // valid until the next call
  };
  // The next content of the file that next() has returned; none at its end. Blocks ascend and lie within its size;
  // the space between them is a hole.
  Result<std::optional<Block>> next_block();

  [[nodiscard]] const std::string& name() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  static std::unique_ptr<State> make(const Library& library, std::string name);

  std::unique_ptr<State> state_;
};

}  // namespace nacre::archive
