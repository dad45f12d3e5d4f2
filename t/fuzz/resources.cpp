// SPDX-License-Identifier: Apache-2.0
//
// An R that is read has its nodes in order and stays the same when it is read again, and holds a job that asks for
// a core of each of its nodes.
#include "job/resources.hpp"

#include "job/job.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using nacre::job::Jobspec;
using nacre::job::PerResource;
using nacre::job::Resources;

namespace {

// An R of more nodes is only read, to keep runs short.
constexpr std::size_t kMaxNodes = 1 << 12;

void require_order(const Resources& resources) {
  require(!resources.nodes.empty() && resources.nodes.size() <= Resources::kMaxNodes, "nodes within the limits");
  for (std::size_t i = 0; i < resources.nodes.size(); ++i) {
    const nacre::job::NodeResources& node = resources.nodes[i];
    require(i == 0 || resources.nodes[i - 1].broker_rank < node.broker_rank, "ranks ascend");
    require(!node.cores.empty() && *node.cores.last() <= Resources::kMaxCoreId, "cores within the limits");
    require(resources.shell_rank(node.broker_rank) == i, "shell_rank finds each node");
  }
}

void require_same(const Resources& resources, const nacre::Result<Resources>& again) {
  require(again.has_value(), again ? "" : "parses again: " + again.error().message);
  require(again->nodes.size() == resources.nodes.size(), "same nodes");
  for (std::size_t i = 0; i < resources.nodes.size(); ++i) {
    const nacre::job::NodeResources& a = resources.nodes[i];
    const nacre::job::NodeResources& b = again->nodes[i];
    require(a.broker_rank == b.broker_rank && a.hostname == b.hostname, "same rank and name");
    require(a.cores == b.cores && a.gpus == b.gpus && a.properties == b.properties, "same ids and properties");
  }
}

void require_distribution(const Resources& resources) {
  auto nodes = static_cast<std::uint32_t>(resources.nodes.size());
  Jobspec spec;
  spec.command = {"app"};
  spec.nodes = nodes;
  spec.slots_per_node = 1;
  spec.slots = nodes;
  spec.count = Jobspec::Count::total;
  spec.count_value = 2 * nodes + 1;
  auto shares = nacre::job::distribute(spec, resources);
  require(shares.has_value(), "a core of each node fits");
  for (std::size_t i = 0; i < nodes; ++i) {
    require((*shares)[i].slots == 1 && (*shares)[i].tasks == (i == 0 ? 3U : 2U), "an even spread");
  }
  auto by_core = nacre::job::distribute(spec, resources, PerResource{PerResource::Type::core, 1});
  if (!by_core) return;  // more cores than a job may have tasks
  for (std::size_t i = 0; i < nodes; ++i) {
    require((*by_core)[i].tasks == resources.nodes[i].cores.size(), "a task on each core");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto resources = Resources::parse({reinterpret_cast<const char*>(data), size});
  if (!resources) {
    require(!resources.error().message.empty(), "an error has a message");
    return 0;
  }
  if (resources->nodes.size() > kMaxNodes) return 0;
  require_order(*resources);
  require_same(*resources, Resources::from_json(resources->document));
  require_distribution(*resources);
  return 0;
}
