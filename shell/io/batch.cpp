// SPDX-License-Identifier: Apache-2.0
#include "io/batch.hpp"

namespace nacre::io {

void Assembler::add(std::string_view bytes, double time, const Take& take) {
  if (bytes.empty()) return;
  if (buffering_ == Buffering::none) return pass(bytes, time, bytes.back() != '\n', take);
  if (buffering_ == Buffering::block && kept_.size() + bytes.size() < kBlock) {
    kept_ += bytes;
    return;
  }
  std::size_t newline = bytes.rfind('\n');
  std::string_view whole = newline == std::string_view::npos ? "" : bytes.substr(0, newline + 1);
  bytes.remove_prefix(whole.size());
  if (!whole.empty()) {
    pass(whole, time, false, take);
  } else if (kept_.size() < kBlock) {
    put_lines(time, take);
  }
  kept_ += bytes;
  if (kept_.size() > kMaxLine) pass("", time, true, take);
}

// Only a block has some.
void Assembler::put_lines(double time, const Take& take) {
  const std::size_t last = buffering_ == Buffering::block ? kept_.rfind('\n') : std::string::npos;
  if (last == std::string::npos) return;
  std::string rest = kept_.substr(last + 1);
  kept_.resize(last + 1);
  pass("", time, false, take);
  kept_ = std::move(rest);
}

void Assembler::end(double time, const Take& take) {
  if (!kept_.empty()) pass("", time, false, take);
}

void Assembler::pass(std::string_view body, double time, bool open, const Take& take) {
  Batch batch{&source_, time, kept_, body, midline_, open};
  midline_ = batch.last() != '\n';
  take(batch);
  kept_.clear();
}

}  // namespace nacre::io
