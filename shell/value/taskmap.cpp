// SPDX-License-Identifier: Apache-2.0
#include "value/taskmap.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/invariant.hpp"
#include "value/taskmap_runs.hpp"

namespace nacre::value {
namespace {

using Block = Taskmap::Block;

std::uint64_t tasks_of(const Block& block) { return std::uint64_t{block.nnodes} * block.ppn * block.repeat; }

// On a single node, repeating is the same as having more tasks; the latter can join its neighbours.
Block plain(Block block) {
  if (block.nnodes == 1) {
    block.ppn *= block.repeat;
    block.repeat = 1;
  }
  return block;
}

// The one block that equals `a` followed by `b`, if there is one.
std::optional<Block> joined(const Block& a, const Block& b) {
  bool same_nodes = a.nodeid == b.nodeid && a.nnodes == b.nnodes;
  if (same_nodes && a.nnodes == 1) return Block{a.nodeid, 1, a.ppn + b.ppn, 1};
  if (a.ppn != b.ppn) return std::nullopt;
  if (same_nodes) return Block{a.nodeid, a.nnodes, a.ppn, a.repeat + b.repeat};
  bool adjacent = b.nodeid == a.nodeid + a.nnodes && a.repeat == 1 && b.repeat == 1;
  if (adjacent) return Block{a.nodeid, a.nnodes + b.nnodes, a.ppn, 1};
  return std::nullopt;
}

}  // namespace

Taskmap Taskmap::block(const std::vector<std::uint32_t>& tasks) {
  Taskmap map;
  std::uint32_t node = 0;
  for (std::uint32_t count : tasks) {
    if (count > 0) map.append({node, 1, count, 1});
    ++node;
  }
  return map;
}

Taskmap Taskmap::of(const std::vector<std::uint32_t>& node_of) {
  Taskmap map;
  for (std::size_t task = 0; task < node_of.size();) {
    std::uint32_t count = 0;
    std::uint32_t node = node_of[task];
    while (task < node_of.size() && node_of[task] == node) ++count, ++task;
    map.append({node, 1, count, 1});
  }
  return map;
}

Result<void> Taskmap::add(std::uint64_t nodeid, std::uint64_t nnodes, std::uint64_t ppn, std::uint64_t repeat) {
  if (nnodes == 0 || ppn == 0 || repeat == 0) {
    return invalid(
        fmt::format("expected nnodes, ppn and repeat of at least 1, got {}, {} and {}", nnodes, ppn, repeat));
  }
  if (nodeid >= kMaxNodes || nnodes > kMaxNodes - nodeid) {
    return invalid(
        fmt::format("{} nodes from node {} on go beyond the limit of {} nodes", nnodes, nodeid, kMaxNodes));
  }
  // Divided, not multiplied: the product of the three may not fit in 64 bits.
  std::uint64_t room = kMaxTasks - tasks_;
  if (ppn > room / nnodes || repeat > room / (nnodes * ppn)) {
    return invalid(fmt::format("more than the limit of {} tasks", kMaxTasks));
  }
  append({static_cast<std::uint32_t>(nodeid), static_cast<std::uint32_t>(nnodes), static_cast<std::uint32_t>(ppn),
          static_cast<std::uint32_t>(repeat)});
  return {};
}

void Taskmap::append(Block block) {
  INVARIANT(block.nodeid < kMaxNodes && block.nnodes <= kMaxNodes - block.nodeid);
  std::uint64_t start = tasks_;
  tasks_ += tasks_of(block);
  INVARIANT(tasks_ <= kMaxTasks);
  nodes_ = std::max(nodes_, block.nodeid + block.nnodes);
  block = plain(block);
  // A joined block may join the one before it: such as the second round of a cyclic map, once it is complete.
  while (!blocks_.empty()) {
    auto both = joined(blocks_.back(), block);
    if (!both) break;
    block = *both;
    start = starts_.back();
    blocks_.pop_back();
    starts_.pop_back();
  }
  blocks_.push_back(block);
  starts_.push_back(start);
}

Result<std::uint32_t> Taskmap::node_of(std::uint64_t task) const {
  if (task >= tasks_) return invalid(fmt::format("taskmap: there is no task {}, only {} tasks", task, tasks_));
  auto index = std::upper_bound(starts_.begin(), starts_.end(), task) - starts_.begin() - 1;
  const Block& block = blocks_[static_cast<std::size_t>(index)];
  std::uint64_t within = (task - starts_[static_cast<std::size_t>(index)]) / block.ppn % block.nnodes;
  return block.nodeid + static_cast<std::uint32_t>(within);
}

std::uint32_t Taskmap::tasks_on(std::uint32_t node) const {
  std::uint32_t count = 0;
  for (const Block& block : blocks_) {
    if (node >= block.nodeid && node - block.nodeid < block.nnodes) count += block.ppn * block.repeat;
  }
  return count;
}

Idset Taskmap::ranks_on(std::uint32_t node) const {
  Idset ranks;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    if (node < block.nodeid || node - block.nodeid >= block.nnodes) continue;
    auto first = static_cast<Idset::Id>(starts_[i]) + (node - block.nodeid) * block.ppn;
    for (std::uint32_t round = 0; round < block.repeat; ++round) {
      ranks.insert(first, first + block.ppn - 1);
      first += block.nnodes * block.ppn;
    }
  }
  return ranks;
}

Result<void> Taskmap::same_size(const Taskmap& other) const {
  if (tasks_ != other.tasks_) return invalid(fmt::format("got {} tasks, expected {}", tasks_, other.tasks_));
  if (nodes_ != other.nodes_) return invalid(fmt::format("got {} nodes, expected {}", nodes_, other.nodes_));
  return {};
}

bool Taskmap::operator==(const Taskmap& other) const {
  if (tasks_ != other.tasks_) return false;
  if (blocks_ == other.blocks_) return true;
  // the same map may be cut into blocks in several ways
  TaskRuns mine(blocks_);
  TaskRuns theirs(other.blocks_);
  while (mine.more()) {
    if (mine.node() != theirs.node()) return false;
    std::uint32_t count = std::min(mine.count(), theirs.count());
    mine.take(count);
    theirs.take(count);
  }
  return true;
}

}  // namespace nacre::value
