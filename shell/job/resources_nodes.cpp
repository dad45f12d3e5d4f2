// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "job/resources.hpp"
#include "value/hostlist.hpp"

namespace nacre::job {
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
