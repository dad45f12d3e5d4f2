// SPDX-License-Identifier: Apache-2.0
#include "io/largest_number.hpp"

namespace nacre::io {
namespace {

constexpr std::string_view kLineEnds = "\n\r";
constexpr std::string_view kBetween = " \t:=#\"'[(<|";  // word and number
constexpr std::size_t kMostBetween = 8;

char lower(char each) { return static_cast<char>(std::tolower(static_cast<unsigned char>(each))); }
bool is_digit(char each) { return std::isdigit(static_cast<unsigned char>(each)) != 0; }

std::optional<double> number_at(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBetween), text.size());
  if (begin == 0 || begin > kMostBetween || begin == text.size() || !is_digit(text[begin])) return std::nullopt;
  double out = 0;
  auto read = std::from_chars(text.data() + begin, text.data() + text.size(), out);
  return read.ec == std::errc() ? std::optional(out) : std::nullopt;
}

}  // namespace

LargestNumber::LargestNumber(std::string word) : word_(std::move(word)) {
  std::transform(word_.begin(), word_.end(), word_.begin(), lower);
}

void LargestNumber::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of(kLineEnds);
    const std::string_view part = bytes.substr(0, end);
    const bool is_whole = line_.empty() && end != bytes.npos;
    if (!is_whole) line_.append(part.substr(0, kMostLine - std::min(kMostLine, line_.size())));
    if (end == bytes.npos) return;
    look(is_whole ? part.substr(0, kMostLine) : std::string_view(line_));
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void LargestNumber::end_line() {
  look(line_);
  line_.clear();
}

void LargestNumber::look(std::string_view line) {
  const auto is_same = [](char a, char b) { return lower(a) == b; };
  for (auto from = line.begin(); from != line.end();) {
    auto found = std::search(from, line.end(), word_.begin(), word_.end(), is_same);
    if (found == line.end()) return;
    from = found + static_cast<std::ptrdiff_t>(word_.size());
    if (found != line.begin() && std::isalnum(static_cast<unsigned char>(*(found - 1))) != 0) continue;
    const auto number = number_at(line.substr(static_cast<std::size_t>(from - line.begin())));
    if (number) value_ = std::max(value_.value_or(*number), *number);
  }
}

}  // namespace nacre::io
