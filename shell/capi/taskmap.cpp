// SPDX-License-Identifier: Apache-2.0
//
// <flux/taskmap.h>: value::Taskmap for C.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.hpp"
#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr int kAllForms =
    TASKMAP_ENCODE_WRAPPED | TASKMAP_ENCODE_PMI | TASKMAP_ENCODE_RAW | TASKMAP_ENCODE_RAW_DERANGED;

void explain(flux_error_t* errp, const std::string& why) {
  if (errp != nullptr) std::snprintf(errp->text, sizeof errp->text, "%s", why.c_str());
}

std::string without_ranges(const value::Idset& ids) { return fmt::format("{}", fmt::join(ids.ids(), ",")); }

std::string raw_without_ranges(const value::Taskmap& map) {
  std::string text;
  for (std::uint32_t node = 0; node < map.nodes(); ++node) {
    if (node > 0) text += ';';
    text += without_ranges(map.ranks_on(node));
  }
  return text;
}

int small(std::uint64_t count) {
  return static_cast<int>(std::min<std::uint64_t>(count, std::numeric_limits<int>::max()));
}

bool has_node(const taskmap* map, int nodeid) {
  return nodeid >= 0 && static_cast<std::uint32_t>(nodeid) < map->map.nodes();
}

}  // namespace

struct taskmap* taskmap_create(void) noexcept {
  return std::make_unique<taskmap>().release();
}

void taskmap_destroy(struct taskmap* map) noexcept { delete map; }

int taskmap_append(struct taskmap* map, int nodeid, int nnodes, int ppn) noexcept {
  if (map == nullptr || nodeid < 0 || nnodes < 1 || ppn < 1) return fail(EINVAL);
  auto of = [](int number) { return static_cast<std::uint64_t>(number); };
  Result<void> added = map->map.add(of(nodeid), of(nnodes), of(ppn), 1);
  return added ? 0 : fail(added.error().code);
}

struct taskmap* taskmap_decode(const char* map, flux_error_t* errp) noexcept {
  Result<value::Taskmap> parsed = invalid("no task map given");
  if (map != nullptr) parsed = value::Taskmap::parse(map);
  if (!parsed) {
    explain(errp, parsed.error().message);
    return none(EINVAL);
  }
  auto made = std::make_unique<taskmap>();
  made->map = *std::move(parsed);
  return made.release();
}

char* taskmap_encode(const struct taskmap* map, int flags) noexcept {
  if (map == nullptr || (flags & ~kAllForms) != 0) return none(EINVAL);
  switch (flags) {
    case 0: return c_string(map->map.str());
    case TASKMAP_ENCODE_WRAPPED: return c_string(dump_json(map->map.json()));
    case TASKMAP_ENCODE_PMI: return c_string(map->map.pmi());
    case TASKMAP_ENCODE_RAW: return c_string(map->map.raw());
    case TASKMAP_ENCODE_RAW_DERANGED: return c_string(raw_without_ranges(map->map));
    default: return none(EINVAL);  // more than one form
  }
}

bool taskmap_unknown(const struct taskmap* map) noexcept { return map == nullptr || map->map.unknown(); }

int taskmap_nodeid(const struct taskmap* map, int taskid) noexcept {
  if (taskmap_unknown(map) || taskid < 0) return fail(EINVAL);
  Result<std::uint32_t> node = map->map.node_of(static_cast<std::uint64_t>(taskid));
  return node ? static_cast<int>(*node) : fail(ENOENT);
}

int taskmap_ntasks(const struct taskmap* map, int nodeid) noexcept {
  if (taskmap_unknown(map) || nodeid < 0) return fail(EINVAL);
  return has_node(map, nodeid) ? small(map->map.tasks_on(static_cast<std::uint32_t>(nodeid))) : fail(ENOENT);
}

int taskmap_nnodes(const struct taskmap* map) noexcept {
  return !taskmap_unknown(map) ? small(map->map.nodes()) : fail(EINVAL);
}

int taskmap_total_ntasks(const struct taskmap* map) noexcept {
  return !taskmap_unknown(map) ? small(map->map.tasks()) : fail(EINVAL);
}

const struct idset* taskmap_taskids(const struct taskmap* map, int nodeid) noexcept {
  if (taskmap_unknown(map) || nodeid < 0) return none(EINVAL);
  if (!has_node(map, nodeid)) return none(ENOENT);
  map->taskids = idset::of(map->map.ranks_on(static_cast<std::uint32_t>(nodeid)));
  return &map->taskids;
}

int taskmap_check(const struct taskmap* a, const struct taskmap* b, flux_error_t* errp) noexcept {
  if (a == nullptr || b == nullptr) {
    explain(errp, "no task map given");
    return fail(EINVAL);
  }
  if (a->map.tasks() != b->map.tasks()) {
    explain(errp, fmt::format("expected {} tasks, got {}", a->map.tasks(), b->map.tasks()));
    return fail(EINVAL);
  }
  if (a->map.nodes() != b->map.nodes()) {
    explain(errp, fmt::format("expected {} nodes, got {}", a->map.nodes(), b->map.nodes()));
    return fail(EINVAL);
  }
  return 0;
}
