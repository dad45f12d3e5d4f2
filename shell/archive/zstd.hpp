// SPDX-License-Identifier: Apache-2.0
//
// Compression with zstd, in frames with a checksum (RFC 8878), so that a flipped bit is noticed when they are read.
// libarchive's own writer leaves the checksum out. libzstd is loaded with the first encoder.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.hpp"

namespace nacre::archive {

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

}  // namespace nacre::archive
