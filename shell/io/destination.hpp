// SPDX-License-Identifier: Apache-2.0
//
// One place where output comes out: a format in front of a sink, and a limit. Bytes that are lost here are counted,
// and a notice is written where they are missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/format.hpp"

namespace nacre::io {

// Where formatted output goes: a descriptor of this process (fd_sink.hpp), or another shell that collects the
// output of all.
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

class Destination {
 public:
  struct Lost {
    std::uint64_t over_limit = 0;     // bytes
    std::uint64_t dropped = 0;        // bytes
    std::uint64_t dropped_lines = 0;  // of these, whole or not
  };

  // `limit`: how many bytes each stream may have, as its tasks wrote them.
  Destination(std::unique_ptr<Format> format, std::unique_ptr<Sink> sink, std::optional<std::uint64_t> limit)
      : format_(std::move(format)), sink_(std::move(sink)), limit_(limit) {}

  Result<void> put(const Batch& batch);
  Result<void> end(const Source& source, double time);
  // Writes a line of the shell's own, without its newline.
  Result<void> notice(std::string_view message, double time);

  [[nodiscard]] Sink& sink() { return *sink_; }
  [[nodiscard]] const Sink& sink() const { return *sink_; }
  [[nodiscard]] const Lost& lost(Stream stream) const { return lost_[static_cast<std::size_t>(stream)]; }

 private:
  Result<void> cut(Batch& batch);
  Result<void> note_dropped(double time);
  void count_dropped(const Batch& batch);

  std::unique_ptr<Format> format_;
  std::unique_ptr<Sink> sink_;
  std::optional<std::uint64_t> limit_;
  std::array<std::uint64_t, kStreams.size()> taken_{};  // bytes
  std::array<Lost, kStreams.size()> lost_{};
  Lost unnoted_;  // dropped since the last notice
};

}  // namespace nacre::io
