// SPDX-License-Identifier: Apache-2.0
#include "front/table.hpp"

#include "base/text.hpp"

namespace nacre::front {

std::string Table::text(bool header) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = header ? columns_[i].name.size() : 0;
    for (const auto& row : rows_) width = std::max(width, row[i].size());
    widths.push_back(width);
  }
  std::string out;
  auto add_line = [&](auto cell) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& text = cell(i);
      std::size_t blanks = widths[i] - text.size();
      if (columns_[i].side == Side::right) line.append(blanks, ' ');
      line += text;
      if (columns_[i].side == Side::left) line.append(blanks, ' ');
      line += ' ';
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  };
  if (header) add_line([&](std::size_t i) -> const std::string& { return columns_[i].name; });
  for (const auto& row : rows_) add_line([&](std::size_t i) -> const std::string& { return row[i]; });
  return out;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out = escape_controls(text.substr(0, most + 1));
  std::replace(out.begin(), out.end(), '\t', ' ');
  return out.size() <= most ? out : out.substr(0, most > 3 ? most - 3 : 0) + "...";
}

std::string time_text(double seconds) {
  seconds = std::max(0.0, seconds);
  if (seconds < 10) return fmt::format("{:.3f}s", seconds);
  if (seconds < 60) return fmt::format("{:.1f}s", seconds);
  if (seconds < 60 * 60) return fmt::format("{:.1f}m", seconds / 60);
  if (seconds < 24 * 60 * 60) return fmt::format("{:.1f}h", seconds / 60 / 60);
  return fmt::format("{:.1f}d", seconds / 24 / 60 / 60);
}

std::string size_text(double bytes) {
  constexpr double kStep = 1024;
  constexpr std::array<char, 4> kUnits{'K', 'M', 'G', 'T'};
  if (bytes < kStep) return fmt::format("{:.0f}", bytes);
  std::size_t unit = 0;
  for (bytes /= kStep; bytes >= kStep && unit + 1 < kUnits.size(); ++unit) bytes /= kStep;
  return fmt::format("{:.1f}{}", bytes, kUnits[unit]);
}

}  // namespace nacre::front
