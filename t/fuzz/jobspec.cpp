// SPDX-License-Identifier: Apache-2.0
//
// A jobspec that is read stays the same when it is read again, and an R that holds it gets all its slots and tasks.
#include "job/jobspec.hpp"

#include "job/job.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using nacre::job::Jobspec;
using nacre::job::Resources;
using nacre::value::Idset;

namespace {

// An R is made only for jobspecs of this size, to keep runs short.
constexpr std::uint32_t kMaxNodes = 1 << 12;
constexpr std::uint64_t kMaxIds = std::uint64_t{1} << 31;

void require_limits(const Jobspec& spec) {
  require(spec.version == 1, "version 1");
  require(!spec.command.empty() && !spec.command.front().empty(), "there is a program");
  require(spec.tasks() >= 1 && spec.tasks() <= Jobspec::kMaxCount, "tasks within the limits");
  require(spec.slots >= 1 && spec.slots <= Jobspec::kMaxCount, "slots within the limits");
  require(spec.cores_per_slot >= 1, "a slot has a core");
  require(spec.nodes.has_value() == spec.slots_per_node.has_value(), "slots by node, or none");
  require(spec.duration >= 0, "duration not negative");
}

void require_same(const Jobspec& spec, const nacre::Result<Jobspec>& again) {
  require(again.has_value(), again ? "" : "parses again: " + again.error().message);
  require(again->slots == spec.slots && again->tasks() == spec.tasks(), "same counts");
  require(again->command == spec.command && again->environment == spec.environment, "same command");
}

void require_distribution(const Jobspec& spec) {
  std::uint32_t nodes = spec.nodes.value_or(1);
  std::uint64_t slots = spec.slots / nodes;
  if (nodes > kMaxNodes || slots * spec.cores_per_slot > kMaxIds || slots * spec.gpus_per_slot > kMaxIds) return;
  Resources resources;
  for (std::uint32_t rank = 0; rank < nodes; ++rank) {
    nacre::job::NodeResources node;
    node.broker_rank = rank;
    node.cores = Idset::range(0, static_cast<Idset::Id>(slots * spec.cores_per_slot - 1));
    if (spec.gpus_per_slot > 0) node.gpus = Idset::range(0, static_cast<Idset::Id>(slots * spec.gpus_per_slot - 1));
    resources.nodes.push_back(std::move(node));
  }
  auto shares = nacre::job::distribute(spec, resources);
  require(shares.has_value(), shares ? "" : "fits: " + shares.error().message);
  std::uint64_t slots_placed = 0;
  std::uint64_t tasks_placed = 0;
  for (const auto& share : *shares) {
    slots_placed += share.slots;
    tasks_placed += share.tasks;
  }
  require(slots_placed == spec.slots, "each slot is on a node");
  require(tasks_placed == spec.tasks(), "each task is on a node");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto spec = Jobspec::parse({reinterpret_cast<const char*>(data), size});
  if (!spec) {
    require(!spec.error().message.empty(), "an error has a message");
    return 0;
  }
  require_limits(*spec);
  require_same(*spec, Jobspec::from_json(spec->document));
  require_same(*spec, Jobspec::parse(nacre::dump_json(spec->document)));
  require_distribution(*spec);
  return 0;
}
