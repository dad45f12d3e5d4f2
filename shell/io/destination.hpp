// SPDX-License-Identifier: Apache-2.0
//
// One place where output comes out: a format in front of a sink, and a limit. Bytes that are lost here are counted,
// and a notice is written where they are missing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/format.hpp"
#include "io/sink.hpp"

namespace nacre::io {

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
