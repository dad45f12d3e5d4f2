// SPDX-License-Identifier: Apache-2.0
#include "doctor/pace.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace nacre::doctor {
namespace {

constexpr double kStarved = 0.6;           // of the cpu time that tasks could use
constexpr double kFarBehind = 0.7;         // of the output of others
constexpr double kLeastOutput = 4096;      // bytes for each task, to compare output
constexpr std::size_t kMostSlowOf = 3;     // one node of so many may be slow
constexpr std::size_t kLeastByOutput = 3;  // nodes

// Of the cpu time that its tasks could use, the share that they get; none: they want little.
std::optional<double> served(const NodePace& node) {
  double wanted = node.cpu.sum + node.ready.sum;
  bool is_measured = node.cpu.count > 0 && node.ready.count == node.cpu.count;
  if (!is_measured || wanted < kLeastWanted * static_cast<double>(node.cpu.count)) return std::nullopt;
  return node.cpu.sum / wanted;
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string bytes_text(double least, double most) {
  auto number = [](double value) { return fmt::format("{:.0f}", value / 1024); };
  return number(least) == number(most) ? number(least) + " KiB"
                                       : fmt::format("{} to {} KiB", number(least), number(most));
}

std::vector<SlowNode> starved(const std::vector<NodePace>& nodes) {
  std::vector<SlowNode> out;
  double least = 1;
  std::size_t measured = 0;
  for (const NodePace& node : nodes) {
    auto share = served(node);
    if (!share) continue;
    ++measured;
    if (*share < kStarved)
      out.push_back({&node, percent(*share)});
    else
      least = std::min(least, *share);
  }
  if (!is_few(out.size(), measured) || least < kServed) return {};
  for (SlowNode& each : out)
    each.evidence = fmt::format(
        "they get {} of the cpu time that they could use, those of the other nodes at least {}, so others use its "
        "cpus too",
        each.evidence, percent(least));
  return out;
}

// All tasks of the node have written far less than any other task.
std::vector<SlowNode> behind(const std::vector<NodePace>& nodes) {
  if (nodes.size() < kLeastByOutput) return {};
  for (const NodePace& node : nodes) {
    if (node.bytes.count == 0 || node.bytes.count != node.ranks.size()) return {};
  }
  std::vector<const NodePace*> by_least;
  for (const NodePace& node : nodes) by_least.push_back(&node);
  std::sort(by_least.begin(), by_least.end(), [](auto* a, auto* b) { return a->bytes.most < b->bytes.most; });
  std::vector<double> least_from(by_least.size());  // of this node and those behind it
  for (std::size_t i = by_least.size(); i-- > 0;) {
    double own = by_least[i]->bytes.least;
    least_from[i] = i + 1 < by_least.size() ? std::min(own, least_from[i + 1]) : own;
  }
  double most = std::max(0.0, by_least.back()->bytes.most);
  std::vector<SlowNode> out;
  for (std::size_t slow = 1; is_few(slow, by_least.size()); ++slow) {
    double least = least_from[slow];
    bool is_clear = least >= kLeastOutput && by_least[slow - 1]->bytes.most <= kFarBehind * least;
    if (!is_clear) continue;
    for (std::size_t i = 0; i < slow; ++i) {
      const Range& own = by_least[i]->bytes;
      out.push_back({by_least[i], fmt::format("they have written {} each so far, those of the other nodes {}",
                                              bytes_text(own.least, own.most), bytes_text(least, most))});
    }
    return out;
  }
  return out;
}

}  // namespace

bool is_few(std::size_t slow, std::size_t nodes) {
  return slow > 0 && slow < nodes && (slow == 1 || slow * kMostSlowOf <= nodes);
}

void NodePace::add(const TaskGroup& group) {
  ranks.insert(group.ranks);
  cpu += group.cpu;
  ready += group.ready;
  bytes += group.bytes;
}

std::vector<SlowNode> slow_nodes(const std::vector<NodePace>& nodes) {
  std::vector<SlowNode> out = starved(nodes);
  return out.empty() ? behind(nodes) : out;
}

}  // namespace nacre::doctor
