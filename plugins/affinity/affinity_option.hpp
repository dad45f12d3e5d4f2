// SPDX-License-Identifier: Apache-2.0
//
// What cpu-affinity and gpu-affinity have in common: the form of their option, and how things are divided among
// tasks.
//
// The option is one of
//
//   on, off, per-task, map:LIST    each may follow `verbose,` and `dry-run,`; one of these alone means `on` with it
//   per-task:LEVEL                 the same, of cpus: LEVEL is a word of kCpuLevels
//   closest, prefer-closest        the same, of gpus
//   true, false, 1, 0              on, off
//   {"mode": one of the first line without prefixes, "verbose": BOOL, "dry-run": BOOL}    each is optional
//
// LIST has a set for each task, separated by semicolons; if there are more tasks than sets, it starts again.
#pragma once

#include "base/json.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

// What is divided among the tasks: each gets whole units of this.
enum class CpuLevel { thread, core, l3, numa, package };
inline constexpr std::string_view kCpuLevels[] = {"thread", "core", "l3", "numa", "package"};

struct AffinityOption {
  enum class Mode { off, on, per_task, map, closest, prefer_closest };
  enum class Resource { cpus, gpus };

  Mode mode = Mode::on;
  std::vector<value::Idset> map;    // for Mode::map: not empty, and no set is empty
  CpuLevel level = CpuLevel::core;  // for Mode::per_task
  bool verbose = false;             // log what each task gets
  bool dry_run = false;             // log it, and do nothing; implies verbose
  bool given = false;               // the option is set

  // `option`: none if it is not set. Errors start with its name.
  static Result<AffinityOption> read(const std::optional<JsonAt>& option, Resource of);

  [[nodiscard]] const value::Idset& set_of(std::size_t task) const { return map[task % map.size()]; }
};

// The largest id in a set; above every kernel's number of cpus.
inline constexpr value::Idset::Id kMaxAffinityId = (1U << 16) - 1;

// The option mem-affinity, or nic-affinity: one of its words, `off` if it is not set.
Result<std::string> read_mem_affinity(const std::optional<JsonAt>& option);
Result<std::string> read_nic_affinity(const std::optional<JsonAt>& option);

// A set in a form of hwloc_bitmap(3): a list ("0-3,7", items in any order, "4-" for 4 and all above), a mask in
// words of 32 bits ("0x00000001,,0xff": an empty word is 0), or a mask of any length in one word, as in taskset(1)
// ("0xf0f"). An empty set is an error, and so is an id above kMaxAffinityId.
Result<value::Idset> parse_affinity_set(std::string_view text);

// The part [first, last) of `count` things that task `task` of `tasks` gets. The parts are as even as possible and
// have neighbouring things. With more tasks than things each task gets one, and as many tasks as possible share
// theirs with nobody. None if there are no things.
[[nodiscard]] std::pair<std::size_t, std::size_t> share_of(std::size_t task, std::size_t tasks, std::size_t count);

// The first `each` of that part, if there are as many for each task; otherwise, or if `each` is 0, all of it.
[[nodiscard]] std::pair<std::size_t, std::size_t> part_of(std::size_t task, std::size_t tasks, std::size_t count,
                                                          std::size_t each);

}  // namespace nacre::plugins
