// SPDX-License-Identifier: Apache-2.0
//
// A task map that parses is the same map in each of its forms.
#include "value/taskmap.hpp"

#include "base/json.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using nacre::value::Taskmap;

namespace {

// The raw and the PMI form grow with the tasks: only those of small maps are written out.
constexpr std::uint64_t kMaxExpanded = 1 << 12;

void require_same(const Taskmap& map, const nacre::Result<Taskmap>& other, const std::string& form) {
  require(other.has_value(), "parses: " + form);
  require(*other == map && map == *other, "same map: " + form);
}

void require_counts(const Taskmap& map) {
  std::uint64_t tasks = 0;
  for (std::uint32_t node = 0; node < map.nodes(); ++node) {
    auto ranks = map.ranks_on(node);
    require(ranks.size() == map.tasks_on(node), "ranks_on and tasks_on agree");
    if (auto first = ranks.first()) require(*map.node_of(*first) == node, "ranks_on and node_of agree");
    tasks += ranks.size();
  }
  require(tasks == map.tasks(), "each task is on one node");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto map = Taskmap::parse({reinterpret_cast<const char*>(data), size});
  if (!map) {
    require(map.error().message.starts_with("taskmap: "), map.error().message);
    return 0;
  }
  require(map->tasks() <= Taskmap::kMaxTasks && map->nodes() <= Taskmap::kMaxNodes, "within the limits");
  require_same(*map, Taskmap::parse(map->str()), map->str());
  require_same(*map, Taskmap::from_json(map->json()), map->str());
  if (map->tasks() > kMaxExpanded || map->nodes() > kMaxExpanded) return 0;
  require_same(*map, Taskmap::parse(map->raw()), map->raw());
  require_same(*map, Taskmap::parse(map->pmi()), map->pmi());
  require_counts(*map);
  return 0;
}
