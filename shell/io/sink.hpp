// SPDX-License-Identifier: Apache-2.0
//
// Where formatted output goes: a descriptor of this process (fd_sink.hpp), or another shell that collects the
// output of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.hpp"

namespace nacre::io {

class Sink {
 public:
  static constexpr std::size_t kMostPieces = 8;

  virtual ~Sink() = default;

  // Takes all of the pieces, at most kMostPieces, in order. After an error the sink has ended: what has not come
  // out never will, and each further write returns the same error.
  virtual Result<void> write(std::span<const std::string_view> pieces) = 0;

  // False: the caller should drop what it has. Only a sink whose policy is to drop returns that. It keeps what it
  // is given nevertheless.
  [[nodiscard]] virtual bool takes() = 0;
  // Whether its writers should wait.
  [[nodiscard]] virtual bool full() const = 0;
  // Whether all that was written has come out, or never will.
  [[nodiscard]] virtual bool flushed() const = 0;
  // How many bytes have come out.
  [[nodiscard]] virtual std::uint64_t written() const = 0;
  // How many bytes it has taken: those that came out, and those that wait.
  [[nodiscard]] virtual std::uint64_t taken() const = 0;
};

// What happens to output when its reader is slower than its writers.
enum class Overflow {
  block,  // writers wait
  spill,  // it is kept in a file, up to a limit; then writers wait
  drop,   // nothing more is taken until the reader has caught up
};

}  // namespace nacre::io
