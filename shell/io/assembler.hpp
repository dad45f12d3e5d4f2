// SPDX-License-Identifier: Apache-2.0
//
// Cuts what one source writes into batches: whole lines, blocks, or each read as it comes. It adds nothing and
// loses nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "io/batch.hpp"

namespace nacre::io {

// none: each read is a batch. line: whole lines. block: whole lines, once there are kBlock bytes of them.
enum class Buffering { none, line, block };

class Assembler {
 public:
  // A longer line comes in parts, of which all but the last are `open`.
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;  // bytes
  static constexpr std::size_t kBlock = std::size_t{64} << 10;   // bytes

  using Take = std::function<void(const Batch&)>;

  // `source` must outlive it.
  Assembler(const Source& source, Buffering buffering) : source_(source), buffering_(buffering) {}

  // Passes on what is ready, in at most two batches, and keeps the rest.
  void add(std::string_view bytes, double time, const Take& take);
  // Passes on the whole lines that it keeps, if anything.
  void put_lines(double time, const Take& take);
  // Passes on what is left, if anything.
  void end(double time, const Take& take);

  [[nodiscard]] std::size_t kept() const { return kept_.size(); }

 private:
  void pass(std::string_view body, double time, bool open, const Take& take);

  const Source& source_;
  Buffering buffering_;
  bool midline_ = false;  // the last byte that was passed on was not a newline
  std::string kept_;
};

}  // namespace nacre::io
