// SPDX-License-Identifier: Apache-2.0
//
// Bytes kept on disk, first in, first out, in a file without a name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::io {

class SpillFile {
 public:
  static Result<SpillFile> create(const std::string& directory);

  // Adds all of it or, after an error, nothing.
  Result<void> add(std::string_view bytes);
  // Appends the first bytes to `out`, at most `most`, and forgets them: their disk space is given back.
  Result<void> take(std::string& out, std::size_t most);
  // take() in two steps: read() appends the first bytes after `skip`; forget() drops the first ones (at most all).
  Result<void> read(std::string& out, std::uint64_t skip, std::size_t most) const;
  Result<void> forget(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t size() const { return end_ - begin_; }  // bytes that are kept

 private:
  SpillFile(UniqueFd fd, std::string directory) : fd_(std::move(fd)), directory_(std::move(directory)) {}

  UniqueFd fd_;
  std::string directory_;  // for messages
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace nacre::io
