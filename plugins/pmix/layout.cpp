// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <charconv>
#include <set>

namespace nacre::pmix {
namespace {

// Takes a number off the front of the text.
std::optional<Rank> take_rank(std::string_view& text) {
  Rank rank = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return rank;
}

bool take_char(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string text_of(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[i]);
    if (last > i) text += '-' + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::vector<Rank>> ranks_in(std::string_view text) {
  constexpr std::size_t kMost = std::size_t{1} << 24;
  std::vector<Rank> ranks;
  while (!text.empty()) {
    std::optional<Rank> first = take_rank(text);
    std::optional<Rank> last = first && take_char(text, '-') ? take_rank(text) : first;
    bool ascending = last && *first <= *last && (ranks.empty() || ranks.back() < *first);
    if (!ascending || *last - *first >= kMost || ranks.size() >= kMost) return std::nullopt;
    for (Rank rank = *first;; ++rank) {
      ranks.push_back(rank);
      if (rank == *last) break;
    }
    if (!text.empty() && (!take_char(text, ',') || text.empty())) return std::nullopt;
  }
  return ranks;
}

std::vector<std::string> distinct(std::vector<std::string> names) {
  std::set<std::string> taken(names.begin(), names.end());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (seen.insert(names[i]).second) continue;
    std::string other = names[i] + '-' + std::to_string(i);
    while (!taken.insert(other).second) other += '-';
    names[i] = std::move(other);
  }
  return names;
}

}  // namespace nacre::pmix
