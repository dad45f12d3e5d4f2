// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace nacre::cli {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

std::string ProgressLine::update(const archive::Progress& progress, double now) {
  if (now < due_) return {};
  due_ = now + kEvery;
  visible_ = true;
  return fmt::format("{}{} entries, {}", kEraseLine, progress.entries, human_size(progress.bytes));
}

std::string ProgressLine::clear() {
  if (!visible_) return {};
  visible_ = false;
  return std::string(kEraseLine);
}

std::string human_size(std::uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

}  // namespace nacre::cli
