// SPDX-License-Identifier: Apache-2.0
#include "elastic/replacements.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::elastic {
namespace {

std::string count_of(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string text_of(Replacements::Room room, bool with_gpus) {
  std::string out = count_of(room.cores, "core");
  return with_gpus ? fmt::format("{} and {}", out, count_of(room.gpus, "gpu")) : out;
}

}  // namespace

Replacements::Room Replacements::needed(const job::Job& job, std::uint32_t shell, const value::Idset& ranks,
                                        bool shares_cores) {
  const job::NodeResources& node = job.resources.nodes[shell];
  const job::Jobspec& spec = job.spec;
  return {shares_cores ? 1 : std::min<std::uint64_t>(ranks.size() * spec.cores_per_slot, node.cores.size()),
          std::min<std::uint64_t>(ranks.size() * spec.gpus_per_slot, node.gpus.size())};
}

Result<std::uint32_t> Replacements::choose(std::span<const Spare> spares, Room needed) {
  std::string too_small;
  for (const Spare& each : spares) {
    if (promised_.contains(each.shell)) continue;
    if (each.room.cores >= needed.cores && each.room.gpus >= needed.gpus) {
      promised_.insert(each.shell);
      return each.shell;
    }
    if (too_small.empty())
      too_small = fmt::format("the spare shell {} has {}, and they need {}", each.shell,
                              text_of(each.room, needed.gpus > 0), text_of(needed, needed.gpus > 0));
  }
  return Error{ENOENT, too_small.empty() ? "there is no spare left" : too_small};
}

Result<std::vector<std::uint32_t>> Replacements::spread(std::span<const Other> others, std::uint64_t tasks) {
  std::vector<Other> left(others.begin(), others.end());
  for (Other& each : left) {
    auto coming = coming_.find(each.shell);
    if (coming == coming_.end()) continue;
    each.tasks += coming->second;
    each.room -= std::min(each.room, coming->second);
  }
  std::vector<std::uint32_t> out;
  while (out.size() < tasks) {
    std::erase_if(left, [this](const Other& each) { return each.room == 0 || promised_.contains(each.shell); });
    auto next = std::min_element(left.begin(), left.end(),
                                 [](const Other& a, const Other& b) { return a.tasks < b.tasks; });
    if (next == left.end())
      return Error{ENOSPC,
                   fmt::format("the other shells have room for {} of {}", out.size(), count_of(tasks, "task"))};
    ++next->tasks;
    --next->room;
    out.push_back(next->shell);
  }
  for (std::uint32_t shell : out) ++coming_[shell];
  return out;
}

void Replacements::ordered(std::uint32_t shell, std::uint64_t tasks) {
  promised_.remove(shell);
  auto coming = coming_.find(shell);
  if (coming == coming_.end()) return;
  coming->second -= std::min(coming->second, tasks);
  if (coming->second == 0) coming_.erase(coming);
}

}  // namespace nacre::elastic
