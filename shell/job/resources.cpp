// SPDX-License-Identifier: Apache-2.0
#include "job/resources.hpp"

#include "base/text.hpp"
#include "job/jobspec.hpp"
#include "value/hostlist.hpp"

namespace nacre::job {
namespace {

using value::Hostlist;
using value::Idset;

Result<Idset> idset(const JsonAt& at) { return in(at.path(), Idset::parse(TRY(at.string()))); }

// ---- R_lite ----------------------------------------------------------------

// An entry of R_lite: ranks with the same cores and gpus.
struct Group {
  JsonAt rank;  // the place of the ranks
  Idset ranks;
  Idset cores;
  Idset gpus;
};

Result<Idset> ids_on_node(const JsonAt& at) {
  Idset ids = TRY(idset(at));
  if (auto last = ids.last(); last && *last > Resources::kMaxCoreId) {
    return at.error(fmt::format("id {}; the largest may be {}", *last, Resources::kMaxCoreId));
  }
  return ids;
}

Result<Group> read_group(const JsonAt& entry) {
  Group group{TRY(entry.at("rank")), {}, {}, {}};
  group.ranks = TRY(idset(group.rank));
  if (group.ranks.empty()) return group.rank.error("expected at least one rank, got none");
  JsonAt children = TRY(entry.at("children"));
  JsonAt core = TRY(children.at("core"));
  group.cores = TRY(ids_on_node(core));
  if (group.cores.empty()) return core.error("expected at least one core, got none");
  if (auto gpu = TRY(children.find("gpu"))) group.gpus = TRY(ids_on_node(*gpu));
  return group;
}

Result<std::vector<Group>> read_groups(const JsonAt& r_lite) {
  std::vector<Group> groups;
  std::uint64_t nodes = 0;
  std::uint64_t ranges = 0;
  for (const JsonAt& entry : TRY(r_lite.elements())) {
    Group group = TRY(read_group(entry));
    nodes += group.ranks.size();
    if (nodes > Resources::kMaxNodes) {
      return group.rank.error(fmt::format("{} ranks so far; at most {}", nodes, Resources::kMaxNodes));
    }
    ranges += group.ranks.size() * (group.cores.ranges().size() + group.gpus.ranges().size());
    if (ranges > Resources::kMaxRanges) {
      return entry.error(
          fmt::format("{} ranges of ids on all ranks so far; at most {}", ranges, Resources::kMaxRanges));
    }
    groups.push_back(std::move(group));
  }
  if (groups.empty()) return r_lite.error("expected at least one entry, got none");
  return groups;
}

struct Run {
  Idset::Range ranks;
  const Group* group;
};

// The nodes of all groups, by rank.
Result<std::vector<NodeResources>> make_nodes(const std::vector<Group>& groups) {
  std::vector<Run> runs;
  for (const Group& group : groups) {
    for (const Idset::Range& range : group.ranks.ranges()) runs.push_back({range, &group});
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.ranks.first < b.ranks.first; });
  std::vector<NodeResources> nodes;
  for (const Run& run : runs) {
    if (!nodes.empty() && nodes.back().broker_rank >= run.ranks.first) {
      return run.group->rank.error(fmt::format("rank {} is in R_lite twice", run.ranks.first));
    }
    for (std::uint64_t rank = run.ranks.first; rank <= run.ranks.last; ++rank) {
      nodes.push_back({static_cast<std::uint32_t>(rank), {}, run.group->cores, run.group->gpus, {}});
    }
  }
  return nodes;
}

// ---- names and properties of nodes -----------------------------------------

// The names belong to the ranks in ascending order, in whatever order R_lite has these.
Result<void> read_nodelist(const JsonAt& nodelist, std::vector<NodeResources>& nodes) {
  std::vector<Hostlist> lists;
  std::uint64_t hosts = 0;
  for (const JsonAt& each : TRY(nodelist.elements())) {
    lists.push_back(TRY(in(each.path(), Hostlist::parse(TRY(each.string())))));
    hosts += lists.back().size();
  }
  if (hosts != nodes.size()) {
    return nodelist.error(
        fmt::format("expected one name for each rank of R_lite, got {} for {}", hosts, nodes.size()));
  }
  auto node = nodes.begin();
  for (const Hostlist& list : lists) {
    for (std::string& name : list.names()) (node++)->hostname = std::move(name);
  }
  return {};
}

std::vector<NodeResources>::const_iterator find_rank(const std::vector<NodeResources>& nodes,
                                                     std::uint32_t broker_rank) {
  return std::lower_bound(nodes.begin(), nodes.end(), broker_rank,
                          [](const NodeResources& node, std::uint32_t rank) { return node.broker_rank < rank; });
}

// The first of these ranks that is not a node.
std::optional<std::uint32_t> missing_rank(const std::vector<NodeResources>& nodes, Idset::Range ranks) {
  auto node = find_rank(nodes, ranks.first);
  for (std::uint64_t rank = ranks.first; rank <= ranks.last; ++rank, ++node) {
    if (node == nodes.end() || node->broker_rank != rank) return static_cast<std::uint32_t>(rank);
  }
  return std::nullopt;
}

struct Property {
  std::string name;
  Idset ranks;
};

Result<Property> read_property(const std::string& name, const JsonAt& at, const std::vector<NodeResources>& nodes) {
  Idset ranks = TRY(idset(at));
  for (const Idset::Range& range : ranks.ranges()) {
    if (auto missing = missing_rank(nodes, range))
      return at.error(fmt::format("rank {} is not in R_lite", *missing));
  }
  return Property{name, std::move(ranks)};
}

Result<std::vector<Property>> read_properties(const JsonAt& properties, const std::vector<NodeResources>& nodes) {
  std::vector<Property> out;
  std::uint64_t uses = 0;
  for (const auto& [name, at] : TRY(properties.members())) {
    if (name.empty() || name.find_first_of("!&'\"^`|()") != std::string::npos) {
      return properties.error(
          fmt::format("expected a property's name, without ! & ' \" ^ ` | ( ), got {}", in_quotes(name)));
    }
    out.push_back(TRY(read_property(name, at, nodes)));
    uses += out.back().ranks.size();
    if (uses > Resources::kMaxProperties) {
      return at.error(fmt::format("{} properties of ranks so far; at most {}", uses, Resources::kMaxProperties));
    }
  }
  return out;
}

void give_property(const Property& property, std::vector<NodeResources>& nodes) {
  for (const Idset::Range& range : property.ranks.ranges()) {
    auto node = nodes.begin() + (find_rank(nodes, range.first) - nodes.begin());
    for (std::uint64_t rank = range.first; rank <= range.last; ++rank)
      (node++)->properties.push_back(property.name);
  }
}

Result<double> read_time(const JsonAt& execution, std::string_view key) {
  auto at = TRY(execution.find(key));
  if (!at) return 0.0;
  double seconds = TRY(at->number());
  if (!std::isfinite(seconds) || seconds < 0) return at->expected("seconds since the epoch, not negative");
  return seconds;
}

Result<void> read_times(const JsonAt& execution, Resources& resources) {
  resources.starttime = TRY(read_time(execution, "starttime"));
  resources.expiration = TRY(read_time(execution, "expiration"));
  if (resources.expiration == 0 || resources.expiration > resources.starttime) return {};
  return TRY(execution.at("expiration")).expected(fmt::format("a time after starttime {}", resources.starttime));
}

Result<void> check_r_version(const JsonAt& root) {
  JsonAt version = TRY(root.at("version"));
  if (TRY(version.integer()) != 1) return version.expected("1");
  return {};
}

}  // namespace

Result<Resources> Resources::parse(std::string_view text) { return from_json(TRY(parse_json(text))); }

Result<Resources> Resources::from_json(Json document) {
  Resources resources;
  JsonAt root = JsonAt::root(document);
  CHECK_OK(check_r_version(root));
  JsonAt execution = TRY(root.at("execution"));
  auto groups = TRY(read_groups(TRY(execution.at("R_lite"))));
  resources.nodes = TRY(make_nodes(groups));
  if (auto found = TRY(execution.find("nodelist"))) CHECK_OK(read_nodelist(*found, resources.nodes));
  if (auto found = TRY(execution.find("properties"))) {
    for (const Property& each : TRY(read_properties(*found, resources.nodes))) give_property(each, resources.nodes);
  }
  if (auto found = TRY(execution.find("nslots"))) {
    std::int64_t slots = TRY(found->integer(1));
    if (slots > Jobspec::kMaxCount)
      return found->error(fmt::format("at most {}, got {}", Jobspec::kMaxCount, slots));
    resources.slots = static_cast<std::uint32_t>(slots);
  }
  CHECK_OK(read_times(execution, resources));
  resources.document = std::move(document);
  return resources;
}

std::optional<std::uint32_t> Resources::shell_rank(std::uint32_t broker_rank) const {
  auto node = find_rank(nodes, broker_rank);
  if (node == nodes.end() || node->broker_rank != broker_rank) return std::nullopt;
  return static_cast<std::uint32_t>(node - nodes.begin());
}

// ---- resources nodes --------------------------------------------------------------------

namespace {

using value::Idset;

// The ranks of an idset's text that stay.
Idset stay(const Json& ranks, const Idset& gone) {
  auto parsed = ranks.is_string() ? Idset::parse(ranks.get<std::string>()) : Result<Idset>(Idset());
  return parsed ? *parsed - gone : Idset();
}

}  // namespace

void add_node(Resources& resources, NodeResources node) {
  node.broker_rank = resources.nodes.back().broker_rank + 1;
  if (!node.cores.empty()) {
    Json children{{"core", node.cores.str()}};
    if (!node.gpus.empty()) children["gpu"] = node.gpus.str();
    Json& execution = resources.document["execution"];
    execution["R_lite"].push_back({{"rank", std::to_string(node.broker_rank)}, {"children", std::move(children)}});
    if (execution.contains("nodelist")) execution["nodelist"].push_back(node.hostname);
  }
  resources.nodes.push_back(std::move(node));
}

Json taken_document(const Resources& resources) {
  auto is_cut = [](const NodeResources& node) { return !node.more_cores.empty() || !node.more_gpus.empty(); };
  if (std::none_of(resources.nodes.begin(), resources.nodes.end(), is_cut)) return resources.document;
  std::map<std::pair<std::string, std::string>, Idset> ranks;  // by cores and gpus
  for (const NodeResources& node : resources.nodes) {
    if (!node.cores.empty()) ranks[{node.cores.str(), node.gpus.str()}].insert(node.broker_rank);
  }
  Json lite = Json::array();
  for (const auto& [what, which] : ranks) {
    Json children{{"core", what.first}};
    if (!what.second.empty()) children["gpu"] = what.second;
    lite.push_back({{"rank", which.str()}, {"children", std::move(children)}});
  }
  Json out = resources.document;
  out["execution"]["R_lite"] = std::move(lite);
  return out;
}

Json without_nodes(const Resources& resources, const Idset& shells) {
  Idset gone;  // broker ranks
  value::Hostlist hosts;
  for (std::uint32_t shell = 0; shell < resources.nodes.size(); ++shell) {
    const NodeResources& node = resources.nodes[shell];
    if (shells.contains(shell)) {
      gone.insert(node.broker_rank);
    } else if (!node.hostname.empty()) {
      hosts.append(node.hostname);
    }
  }
  Json out = resources.document;
  Json& execution = out["execution"];
  Json lite = Json::array();
  for (Json& entry : execution["R_lite"]) {
    Idset ranks = stay(entry["rank"], gone);
    if (ranks.empty()) continue;
    entry["rank"] = ranks.str();
    lite.push_back(std::move(entry));
  }
  execution["R_lite"] = std::move(lite);
  if (execution.contains("nodelist")) execution["nodelist"] = Json::array({hosts.str()});
  if (auto properties = execution.find("properties"); properties != execution.end()) {
    Json kept = Json::object();
    for (const auto& [name, ranks] : properties->items()) {
      Idset left = stay(ranks, gone);
      if (!left.empty()) kept[name] = left.str();
    }
    *properties = std::move(kept);
  }
  return out;
}

}  // namespace nacre::job
