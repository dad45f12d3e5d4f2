// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/cpu_division.hpp"

#include <algorithm>
#include <numeric>

#include "plugins/affinity/affinity_option.hpp"

namespace nacre::plugins {
namespace {

using Share = std::vector<std::size_t>;

// Units [first, last), and the groups within; a unit without a group is one of its own.
struct Group {
  std::size_t first = 0;
  std::size_t last = 0;
  std::vector<Group> parts;

  [[nodiscard]] std::size_t size() const { return last - first; }
  [[nodiscard]] bool has_groups() const {
    return std::any_of(parts.begin(), parts.end(), [](const Group& each) { return !each.parts.empty(); });
  }
};

// Groups of several units, the outer ones first.
std::vector<Group> groups_of(const Units& units) {
  std::vector<Group> out;
  std::size_t count = units.weights.size();
  for (const auto& numbers : units.groups) {
    for (std::size_t first = 0, last = 0; first < count; first = last) {
      while (last < count && numbers[last] == numbers[first]) ++last;
      if (last - first > 1 && last - first < count) out.push_back({first, last, {}});
    }
  }
  std::sort(out.begin(), out.end(), [](const Group& a, const Group& b) {
    return a.first != b.first ? a.first < b.first : a.last > b.last;
  });
  return out;
}

// Puts the groups from `next` on that are within `group` into it. One that is only partly in it is passed over, as
// groups are nested.
void fill(Group& group, const std::vector<Group>& groups, std::size_t& next) {
  std::size_t covered = group.first;
  auto add_units = [&](std::size_t end) {
    for (; covered < end; ++covered) group.parts.push_back({covered, covered + 1, {}});
  };
  while (next < groups.size() && groups[next].first < group.last) {
    Group part = groups[next++];
    if (part.first < covered || part.last > group.last || part.size() == group.size()) continue;
    add_units(part.first);
    fill(part, groups, next);
    covered = part.last;
    group.parts.push_back(std::move(part));
  }
  add_units(group.last);
}

class Divider {
 public:
  explicit Divider(const Units& units) : weights_(units.weights), is_free_(units.weights.size(), true) {}

  void divide(const Group& group, std::size_t tasks) {
    if (tasks == 0) return;
    Share free = free_in(group);
    if (tasks == 1) return shares.push_back(std::move(free));
    if (tasks > free.size()) return divide_few(group, free, tasks);
    if (!group.has_groups()) return deal(free, tasks);
    divide_parts(group, free.size() / tasks, tasks);
  }

  std::vector<Share> shares;

 private:
  [[nodiscard]] Share free_in(const Group& group) const {
    Share out;
    for (std::size_t i = group.first; i < group.last; ++i) {
      if (is_free_[i]) out.push_back(i);
    }
    return out;
  }

  [[nodiscard]] std::size_t count_free(const Group& group) const {
    auto at = [&](std::size_t i) { return is_free_.begin() + static_cast<std::ptrdiff_t>(i); };
    return static_cast<std::size_t>(std::count(at(group.first), at(group.last), true));
  }

  void deal(const Share& units, std::size_t tasks) {
    for (std::size_t task = 0; task < tasks; ++task) {
      auto [first, last] = share_of(task, tasks, units.size());
      shares.emplace_back(units.begin() + static_cast<std::ptrdiff_t>(first),
                          units.begin() + static_cast<std::ptrdiff_t>(last));
    }
  }

  // The tasks one by one to the part in which a task then has the most: the least that a task has is the most that
  // can be.
  static std::vector<std::size_t> apportion(const std::vector<std::size_t>& weights, std::size_t tasks) {
    std::vector<std::size_t> counts(weights.size());
    for (; tasks > 0; --tasks) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < weights.size(); ++i) {
        if (weights[i] * (counts[best] + 1) > weights[best] * (counts[i] + 1)) best = i;
      }
      ++counts[best];
    }
    return counts;
  }

  // Fewer units than tasks.
  void divide_few(const Group& group, const Share& free, std::size_t tasks) {
    if (free.size() == 1) {
      shares.insert(shares.end(), tasks, free);
      return;
    }
    std::vector<std::size_t> weights;
    for (const Group& part : group.parts) {
      std::size_t weight = 0;
      for (std::size_t unit : free_in(part)) weight += weights_[unit];
      weights.push_back(weight);
    }
    std::vector<std::size_t> counts = apportion(weights, tasks);
    for (std::size_t i = 0; i < counts.size(); ++i) divide(group.parts[i], counts[i]);
  }

  // `share`: how many units each task is to have at least.
  void divide_parts(const Group& group, std::size_t share, std::size_t tasks) {
    std::vector<std::size_t> sizes;
    std::size_t fit = 0;
    for (const Group& part : group.parts) {
      sizes.push_back(count_free(part));
      fit += sizes.back() / share;
    }
    if (fit >= tasks) {
      std::vector<std::size_t> counts = apportion(sizes, tasks);
      for (std::size_t i = 0; i < counts.size(); ++i) divide(group.parts[i], counts[i]);
      return;
    }
    // Each part has as many tasks as it can hold, and the rest have what is left of several parts.
    Share left;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      take(group.parts[i], sizes[i] % share, share, left);
      divide(group.parts[i], sizes[i] / share);
    }
    deal(left, tasks - fit);
  }

  // Takes `count` units, first those by which parts have more than shares.
  void take(const Group& group, std::size_t count, std::size_t share, Share& out) {
    if (count == 0) return;
    std::size_t before = out.size();
    if (group.has_groups()) {
      for (const Group& part : group.parts) {
        std::size_t left = count - (out.size() - before);
        take(part, std::min(left, count_free(part) % share), share, out);
      }
    }
    Share free = free_in(group);
    std::size_t more = count - (out.size() - before);
    for (std::size_t i = free.size() - more; i < free.size(); ++i) {
      is_free_[free[i]] = false;
      out.push_back(free[i]);
    }
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
  }

  const std::vector<std::size_t>& weights_;
  std::vector<bool> is_free_;
};

}  // namespace

std::vector<std::vector<std::size_t>> divide(const Units& units, std::size_t tasks) {
  Group all{0, units.weights.size(), {}};
  std::size_t next = 0;
  fill(all, groups_of(units), next);
  Divider divider(units);
  divider.divide(all, tasks);
  std::stable_sort(divider.shares.begin(), divider.shares.end(),
                   [](const Share& a, const Share& b) { return a.front() < b.front(); });
  return std::move(divider.shares);
}

}  // namespace nacre::plugins
