// SPDX-License-Identifier: Apache-2.0
//
// The rule, with C cores and G gpus a slot:
//
// 1. A node of R offers floor(its cores / C) slots; if G > 0, no more than floor(its gpus / G).
// 2. If the jobspec has a node vertex, N nodes with S slots each: the first N nodes, by rank, that offer at least S
//    have S slots each. Other nodes of R have none. `exclusive` changes nothing: R then has more cores, but the job
//    has no more slots.
// 3. If the jobspec has only a slot vertex, S slots: they are dealt (see below) to the nodes, to each no more
//    than it offers.
// 4. With T tasks for S slots in all, each slot has floor(T / S) tasks; the T mod S tasks that are left are
//    dealt to the nodes, to each no more than it has slots. So the slots differ by at most one task, whether there
//    are more tasks than slots or fewer. T is the jobspec's `total`, or `per_slot` times S.
// 5. The option per-resource sets the tasks of each node of R to its count, or to its count times the node's
//    cores. The slots do not change.
// 6. The option oversubscribe: a node may have more slots than its cores hold, but not than its gpus do. What the
// cores hold is
//    dealt first, as by 3; what is left is dealt to all nodes alike.
//
// To deal means to go round the nodes by rank, and to give each that has room one more, until all are dealt. The
// code finds the number of rounds by bisection.
//
// Flux's shell puts more slots on a node than it has cores for, as long as there is a core for each task in all.
// Here this is an error: an R that does not hold its jobspec was not made for it.
#include "job/distribute.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"
#include "job/options.hpp"

namespace nacre::job {
namespace {

std::uint64_t sum_up_to(const std::vector<std::uint32_t>& room, std::uint32_t level) {
  std::uint64_t sum = 0;
  for (std::uint32_t each : room) sum += std::min(each, level);
  return sum;
}

// Deals `count` things to places with this room, which is enough.
std::vector<std::uint32_t> deal(std::uint64_t count, std::vector<std::uint32_t> room) {
  // The number of rounds in which every place with room gets one lies between `level` and `above`, exclusive.
  std::uint32_t level = 0;
  std::uint32_t above = Jobspec::kMaxCount + 1;
  while (above - level > 1) {
    std::uint32_t middle = level + (above - level) / 2;
    (sum_up_to(room, middle) <= count ? level : above) = middle;
  }
  std::uint64_t left = count - sum_up_to(room, level);
  for (std::uint32_t& each : room) {
    bool one_more = each > level && left > 0;
    each = std::min(each, level) + (one_more ? 1 : 0);
    if (one_more) --left;
  }
  return room;
}

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "4 slots of 2 cores and 1 gpu"
std::string slots_text(const Jobspec& spec, std::uint64_t slots) {
  std::string text = fmt::format("{} of {}", counted(slots, "slot"), counted(spec.cores_per_slot, "core"));
  if (spec.gpus_per_slot > 0) text += " and " + counted(spec.gpus_per_slot, "gpu");
  return text;
}

// `oversubscribe`: as far as the gpus go.
std::vector<std::uint32_t> offered_slots(const Jobspec& spec, const Resources& resources, bool oversubscribe) {
  std::vector<std::uint32_t> offers;
  offers.reserve(resources.nodes.size());
  for (const NodeResources& node : resources.nodes) {
    std::uint64_t slots = oversubscribe ? Jobspec::kMaxCount : node.cores.size() / spec.cores_per_slot;
    if (spec.gpus_per_slot > 0) slots = std::min(slots, node.gpus.size() / spec.gpus_per_slot);
    offers.push_back(static_cast<std::uint32_t>(slots));
  }
  return offers;
}

// Whether the slots would not fit either if the nodes had any number of cores.
bool lacks_gpus(const Jobspec& spec, const Resources& resources) {
  if (spec.gpus_per_slot == 0) return false;
  std::vector<std::uint32_t> offers = offered_slots(spec, resources, true);
  if (!spec.nodes) return sum_up_to(offers, Jobspec::kMaxCount) < spec.slots;
  std::uint32_t each = spec.slots_per_node.value_or(1);
  return std::count_if(offers.begin(), offers.end(), [each](std::uint32_t offer) { return offer >= each; }) <
         *spec.nodes;
}

// "; n0 has 2 cores, n1 has 4 cores and 1 gpu: fewer tasks (-n), ...": of the first hosts, if they have names; else
// "".
std::string remedy(const Jobspec& spec, const Resources& resources) {
  constexpr std::size_t kNamed = 3;
  if (resources.nodes[0].hostname.empty()) return "";
  std::string out;
  for (std::size_t i = 0; i < std::min(kNamed, resources.nodes.size()); ++i) {
    const NodeResources& node = resources.nodes[i];
    out += fmt::format("{} {} has {}", i == 0 ? ";" : ",", node.hostname, counted(node.cores.size(), "core"));
    if (spec.gpus_per_slot > 0) out += " and " + counted(node.gpus.size(), "gpu");
  }
  if (resources.nodes.size() > kNamed) out += fmt::format(", and {} more", resources.nodes.size() - kNamed);
  return out + (lacks_gpus(spec, resources) ? ": fewer tasks (-n) or fewer gpus a task (-g)"
                                            : ": fewer tasks (-n), fewer cores a task (-c), or --oversubscribe");
}

Result<std::vector<std::uint32_t>> slots_by_node(const Jobspec& spec, const Resources& resources,
                                                 std::vector<std::uint32_t> offers) {
  std::uint32_t nodes = *spec.nodes;
  std::uint32_t slots_each = spec.slots_per_node.value_or(1);
  if (nodes > offers.size()) {
    return invalid(fmt::format("jobspec asks for {}; R has {}", counted(nodes, "node"), offers.size()));
  }
  std::uint32_t taken = 0;
  for (std::uint32_t& each : offers) {
    bool take = taken < nodes && each >= slots_each;
    each = take ? slots_each : 0;
    if (take) ++taken;
  }
  if (taken == nodes) return offers;
  return invalid(fmt::format("jobspec asks for {} with {} each; R has {} such{}", counted(nodes, "node"),
                             slots_text(spec, slots_each), taken, remedy(spec, resources)));
}

Result<std::vector<std::uint32_t>> place_slots(const Jobspec& spec, const Resources& resources,
                                               bool oversubscribe) {
  std::vector<std::uint32_t> offers = offered_slots(spec, resources, oversubscribe);
  if (spec.nodes) return slots_by_node(spec, resources, std::move(offers));
  std::uint64_t room = sum_up_to(offers, Jobspec::kMaxCount);
  if (spec.slots > room) {
    return invalid(fmt::format("jobspec asks for {}; R has room for {}{}", slots_text(spec, spec.slots), room,
                               remedy(spec, resources)));
  }
  if (!oversubscribe) return deal(spec.slots, std::move(offers));
  std::vector<std::uint32_t> own = offered_slots(spec, resources, false);
  std::uint64_t fitting = std::min<std::uint64_t>(spec.slots, sum_up_to(own, Jobspec::kMaxCount));
  std::vector<std::uint32_t> first = deal(fitting, std::move(own));
  for (std::size_t i = 0; i < offers.size(); ++i) offers[i] -= first[i];
  std::vector<std::uint32_t> rest = deal(spec.slots - fitting, std::move(offers));
  for (std::size_t i = 0; i < first.size(); ++i) first[i] += rest[i];
  return first;
}

std::vector<NodeShare> place_tasks(const Jobspec& spec, const std::vector<std::uint32_t>& slots) {
  std::uint64_t each = spec.tasks() / spec.slots;
  std::vector<std::uint32_t> rest = deal(spec.tasks() % spec.slots, slots);
  std::vector<NodeShare> shares;
  shares.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    shares.push_back({slots[i], static_cast<std::uint32_t>(each * slots[i] + rest[i])});
  }
  return shares;
}

Result<void> set_tasks(const PerResource& option, const Resources& resources, std::vector<NodeShare>& shares) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    std::uint64_t units = option.type == PerResource::Type::core ? resources.nodes[i].cores.size() : 1;
    total += option.count * units;
    shares[i].tasks = static_cast<std::uint32_t>(option.count * units);
  }
  if (total <= Jobspec::kMaxCount) return {};
  return invalid(fmt::format("per-resource: {} tasks in all; at most {}", total, Jobspec::kMaxCount));
}

}  // namespace

Result<PerResource> PerResource::from_json(const Json& option) {
  JsonAt at = JsonAt::root(option, "per-resource");
  CHECK_OK(at.only_keys({"type", "count"}));
  JsonAt type = TRY(at.at("type"));
  std::string name = TRY(type.string());
  if (name != "core" && name != "node") return type.expected("core or node");
  PerResource out;
  out.type = name == "core" ? Type::core : Type::node;
  if (auto count = TRY(at.find("count")))
    out.count = static_cast<std::uint32_t>(TRY(count->integer(1, Jobspec::kMaxCount)));
  return out;
}

Result<Oversubscribe> oversubscribe_of(const JsonAt& option) {
  if (option.json() == "share") return Oversubscribe::share;
  auto is_on = switch_of(option);
  if (!is_on) return option.expected("true, false or share");
  return *is_on ? Oversubscribe::yes : Oversubscribe::no;
}

Result<std::uint32_t> spares_of(const Options& options) {
  auto option = options.at("spares");
  if (!option) return std::uint32_t{0};
  return static_cast<std::uint32_t>(TRY(option->integer(0, Resources::kMaxNodes - 1)));
}

Result<std::vector<NodeShare>> distribute(const Jobspec& spec, const Resources& resources,
                                          const std::optional<PerResource>& per_resource, bool oversubscribe) {
  std::vector<std::uint32_t> slots = TRY(place_slots(spec, resources, oversubscribe));
  std::vector<NodeShare> shares = place_tasks(spec, slots);
  if (per_resource) CHECK_OK(set_tasks(*per_resource, resources, shares));
  return shares;
}

std::string sharing_text(const Jobspec& spec, const Resources& resources, const std::vector<NodeShare>& shares) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const NodeResources& node = resources.nodes[i];
    bool fits = std::uint64_t{shares[i].slots} * spec.cores_per_slot <= node.cores.size();
    if (fits || shares[i].tasks == 0) continue;
    return fmt::format("{} share {}{}", counted(shares[i].tasks, "task"), counted(node.cores.size(), "core"),
                       node.on());
  }
  return "";
}

}  // namespace nacre::job
