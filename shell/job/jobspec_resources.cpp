// SPDX-License-Identifier: Apache-2.0
//
// The resources of a jobspec: those of version 1, and what else of Flux RFC 14 has a clear meaning for a shell,
// whose R already has what the job has got.
#include "job/jobspec_resources.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::job {
namespace {

// What is around a vertex.
struct Around {
  std::uint64_t levels = 1;         // of racks and the like around nodes or, in a node, of sockets and the like
  std::optional<CountRange> nodes;  // none: it is in no node
};

Result<std::uint32_t> in_all(const JsonAt& at, std::uint64_t each, std::uint64_t times, std::string_view what) {
  std::uint64_t all = 0;
  if (!__builtin_mul_overflow(each, times, &all) && all <= Jobspec::kMaxCount)
    return static_cast<std::uint32_t>(all);
  return at.error(fmt::format("{} {}; at most {}", all, what, Jobspec::kMaxCount));
}

Result<std::string> type_of(const JsonAt& vertex) { return TRY(vertex.at("type")).string(); }

Result<bool> exclusive(const JsonAt& vertex) {
  auto found = TRY(vertex.find("exclusive"));
  if (!found) return false;
  return found->boolean();
}

Result<void> check_vertex(const JsonAt& vertex) {
  CHECK_OK(vertex.only_keys({"type", "count", "unit", "with", "label", "exclusive", "id"}));
  for (std::string_view key : {"unit", "label", "id"}) {
    if (auto found = TRY(vertex.find(key))) CHECK_OK(found->string());
  }
  CHECK_OK(exclusive(vertex));
  CHECK_OK(TRY(vertex.at("type")).string());
  return {};
}

Result<CountRange> count_of(const JsonAt& vertex) { return CountRange::read(TRY(vertex.at("count"))); }

// A level that is around others: how many there are has to be known.
Result<std::uint32_t> fixed_count(const JsonAt& vertex) {
  CountRange count = TRY(count_of(vertex));
  if (count.is_fixed()) return count.min();
  return TRY(vertex.at("count")).expected("a positive integer, as the number of slots depends on it");
}

Result<std::size_t> slots_in(const JsonAt& vertices) {
  std::size_t slots = 0;
  for (const JsonAt& vertex : TRY(vertices.elements())) {
    if (TRY(type_of(vertex)) == "slot")
      ++slots;
    else if (auto with = TRY(vertex.find("with")))
      slots += TRY(slots_in(*with));
  }
  return slots;
}

class SlotContents {
 public:
  // `times`: of each vertex in a slot.
  Result<void> read(const JsonAt& with, std::uint64_t times) {
    for (const JsonAt& vertex : TRY(with.elements())) CHECK_OK(read_vertex(vertex, times));
    return {};
  }

  std::uint32_t cores = 0;
  std::uint32_t gpus = 0;
  std::optional<std::uint32_t> nodes;  // whole nodes in a slot

 private:
  Result<void> read_vertex(const JsonAt& vertex, std::uint64_t times) {
    CHECK_OK(check_vertex(vertex));
    std::string type = TRY(type_of(vertex));
    if (type == "slot") return vertex.error("a slot in a slot");
    CountRange count = TRY(count_of(vertex));
    bool is_core = type == "core";
    if (is_core || type == "gpu") {
      std::uint32_t& sum = is_core ? cores : gpus;
      if (sum > 0) return vertex.error(fmt::format("a second {}", type));
      sum = TRY(in_all(vertex, count.min(), times, fmt::format("{}s in a slot", type)));
      return {};
    }
    if (type == "node") {
      if (nodes) return vertex.error("a second node");
      nodes = count.min();
    }
    auto with = TRY(vertex.find("with"));
    if (!with) return {};
    return read(*with,
                type == "node" ? times : TRY(in_all(vertex, count.min(), times, "of its contents in a slot")));
  }
};

class Reader {
 public:
  explicit Reader(Jobspec& spec) : spec_(spec) {}

  // The only slot in these vertices. Those without a slot have no effect.
  Result<void> read(const JsonAt& vertices, const Around& around) {
    for (const JsonAt& vertex : TRY(vertices.elements())) {
      CHECK_OK(check_vertex(vertex));
      if (TRY(type_of(vertex)) == "slot") return read_slot(vertex, around);
      auto with = TRY(vertex.find("with"));
      if (with && TRY(slots_in(*with)) > 0) return read_level(vertex, *with, around);
    }
    return vertices.error("no slot");
  }

  std::string label;

 private:
  Result<void> read_level(const JsonAt& vertex, const JsonAt& with, const Around& around) {
    Around inner = around;
    if (TRY(type_of(vertex)) != "node") {
      inner.levels = TRY(in_all(vertex, TRY(fixed_count(vertex)), around.levels, "of it in all"));
      return read(with, inner);
    }
    if (around.nodes) return vertex.error("a node in a node");
    CountRange count = TRY(count_of(vertex));
    if (!count.is_fixed() && around.levels > 1) return TRY(vertex.at("count")).expected("a positive integer");
    spec_.node_exclusive = TRY(exclusive(vertex));
    spec_.nodes = TRY(in_all(vertex, count.min(), around.levels, "nodes in all"));
    inner.nodes = count;
    inner.levels = 1;
    if (!count.is_fixed()) spec_.node_counts = count;
    return read(with, inner);
  }

  Result<void> read_slot(const JsonAt& vertex, const Around& around) {
    label = TRY(TRY(vertex.at("label")).string());
    CountRange count = TRY(count_of(vertex));
    std::uint64_t slots = TRY(in_all(vertex, count.min(), around.levels, "slots"));
    JsonAt with = TRY(vertex.at("with"));
    SlotContents contents;
    CHECK_OK(contents.read(with, 1));
    if (contents.nodes && around.nodes) return with.error("a node in a node");
    if (contents.cores == 0 && !contents.nodes) return with.error("no core; a slot needs one");
    if (!count.is_fixed()) {
      if (around.levels > 1) return TRY(vertex.at("count")).expected("a positive integer");
      spec_.slot_counts = count;
    }
    spec_.cores_per_slot = std::max(contents.cores, 1U);
    spec_.gpus_per_slot = contents.gpus;
    if (around.nodes) spec_.slots_per_node = static_cast<std::uint32_t>(slots);
    if (contents.nodes) spec_.node_exclusive = true;
    if (contents.nodes == 1U && count.is_fixed()) {
      spec_.nodes = static_cast<std::uint32_t>(slots);
      spec_.slots_per_node = 1;
    }
    std::uint64_t times = around.nodes ? *spec_.nodes : 1;
    std::uint64_t all = slots * times;
    if (all > Jobspec::kMaxCount)
      return vertex.error(fmt::format("{} slots on all nodes; at most {}", all, Jobspec::kMaxCount));
    spec_.slots = static_cast<std::uint32_t>(all);
    return {};
  }

  Jobspec& spec_;
};

}  // namespace

Result<std::string> read_resources(const JsonAt& resources, Jobspec& spec) {
  std::size_t slots = TRY(slots_in(resources));
  if (slots != 1)
    return resources.error(fmt::format("expected one slot, got {}{}", slots,
                                       slots > 1 ? "; the option multi-prog runs several programs" : ""));
  Reader reader(spec);
  CHECK_OK(reader.read(resources, {}));
  return std::move(reader.label);
}

Result<void> settle_counts(const Resources& resources, Jobspec& spec) {
  auto nodes = static_cast<std::uint32_t>(resources.nodes.size());
  if (spec.node_counts) {
    if (!spec.node_counts->contains(nodes))
      return invalid(fmt::format("R has {} nodes, which is not a number of them that the jobspec asks for", nodes));
    spec.nodes = nodes;
    spec.slots = nodes * spec.slots_per_node.value_or(1);
  }
  if (!spec.slot_counts) return {};
  if (!resources.slots)
    return invalid("the jobspec leaves the number of slots open; R has to have it as execution.nslots");
  std::uint32_t each = spec.nodes ? *resources.slots / *spec.nodes : *resources.slots;
  if (!spec.slot_counts->contains(each) || (spec.nodes && each * *spec.nodes != *resources.slots))
    return invalid(
        fmt::format("R has {} slots, which is not a number of them that the jobspec asks for", *resources.slots));
  if (spec.nodes) spec.slots_per_node = each;
  spec.slots = *resources.slots;
  return {};
}

}  // namespace nacre::job
