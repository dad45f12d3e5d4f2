// SPDX-License-Identifier: Apache-2.0
//
// Bytes of many sources to one descriptor, in whole lines: no line has bytes of two sources.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::plugins {

class LineWriter {
 public:
  // A line longer than this comes out in parts. Where another source's line has to come between two parts, the
  // first is ended by a newline.
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;  // bytes

  struct Source {
    std::string label;    // before each line
    std::string partial;  // a line without its end, so far
  };

  // Does not own `fd`. A write that would block waits, on a non-blocking descriptor too.
  explicit LineWriter(int fd) : fd_(fd) {}

  // Writes the whole lines of `bytes`, and keeps the rest. An error is that of write(2). A source keeps its
  // address.
  Result<void> add(Source& source, std::string_view bytes);
  // The source has ended: what it has left comes out, with a newline if it is labelled.
  Result<void> end(Source& source);

 private:
  Result<void> put(const Source& source, std::string_view text);
  Result<void> write(std::string_view text);

  int fd_;
  bool midline_ = false;           // the last byte written was no newline ...
  const Source* owner_ = nullptr;  // ... and was this source's; null: of one that has ended
  std::string labelled_;           // kept for its memory
};

}  // namespace nacre::plugins
