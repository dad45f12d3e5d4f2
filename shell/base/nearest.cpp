// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace nacre {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // two rows above
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, above[j] + 1, row[j - 1] + 1});
      bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::size_t max_edits(std::size_t length) {
  if (length <= 3) return 1;
  return length <= 9 ? 2 : 3;
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kMaxName = 100;  // bytes
  if (name.size() > kMaxName) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t edits = max_edits(name.size()) + 1;
  for (const std::string& each : known) {
    if (each.size() > kMaxName) continue;
    std::size_t of_this = edit_distance(name, each);
    if (of_this == 0) return std::nullopt;
    if (of_this >= edits) continue;
    best = &each;
    edits = of_this;
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  std::optional<std::string> near = nearest(name, known);
  return near ? "; did you mean " + *near + "?" : "";
}

}  // namespace nacre
