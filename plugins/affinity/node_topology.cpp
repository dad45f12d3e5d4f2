// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/node_topology.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

Json texts_of(const std::vector<Idset>& sets) {
  Json out = Json::array();
  for (const Idset& set : sets) out.push_back(set.str());
  return out;
}

Json devices_of(const std::vector<Device>& devices) {
  Json out = Json::array();
  for (const Device& each : devices)
    out.push_back({{"name", each.name}, {"bus", each.bus}, {"cpus", each.cpus.str()}, {"bridges", each.bridges}});
  return out;
}

Result<Idset> set_at(const JsonAt& json) { return in(json.path(), Idset::parse(TRY(json.string()))); }

Result<std::vector<Idset>> sets_at(const JsonAt& json, std::string_view key) {
  std::vector<Idset> out;
  auto member = TRY(json.find(key));
  if (!member) return out;
  for (const JsonAt& each : TRY(member->elements())) out.push_back(TRY(set_at(each)));
  return out;
}

Result<Device> device_at(const JsonAt& json) {
  Device out;
  out.name = TRY(TRY(json.at("name")).string());
  out.bus = TRY(TRY(json.at("bus")).string());
  out.cpus = TRY(set_at(TRY(json.at("cpus"))));
  for (const JsonAt& each : TRY(TRY(json.at("bridges")).elements()))
    out.bridges.push_back(static_cast<std::uint64_t>(TRY(each.integer(0))));
  return out;
}

Result<std::vector<Device>> devices_at(const JsonAt& json, std::string_view key) {
  std::vector<Device> out;
  auto member = TRY(json.find(key));
  if (!member) return out;
  for (const JsonAt& each : TRY(member->elements())) out.push_back(TRY(device_at(each)));
  return out;
}

}  // namespace

Idset NodeTopology::all_cpus() const {
  std::vector<Idset::Id> ids;
  for (const Idset& core : cpus.cores) {
    for (Idset::Id cpu : core.ids()) ids.push_back(cpu);
  }
  return Idset::of(ids);
}

Json to_json(const NodeTopology& topology) {
  Json numas = Json::array();
  for (const auto& each : topology.cpus.numas)
    numas.push_back({{"id", each.id}, {"cpus", each.cpus.str()}, {"memory", each.has_memory}});
  return {{"cores", texts_of(topology.cpus.cores)},
          {"l3s", texts_of(topology.cpus.l3s)},
          {"packages", texts_of(topology.cpus.packages)},
          {"numas", std::move(numas)},
          {"gpus", devices_of(topology.gpus)},
          {"nics", devices_of(topology.nics)}};
}

Result<NodeTopology> node_topology_of(const JsonAt& json) {
  NodeTopology out;
  out.cpus.cores = TRY(sets_at(json, "cores"));
  if (out.cpus.cores.empty()) return json.error("it has no cores");
  out.cpus.l3s = TRY(sets_at(json, "l3s"));
  out.cpus.packages = TRY(sets_at(json, "packages"));
  if (auto numas = TRY(json.find("numas"))) {
    for (const JsonAt& each : TRY(numas->elements())) {
      auto id = static_cast<Idset::Id>(TRY(TRY(each.at("id")).integer(0, Idset::kMaxId)));
      Idset cpus = TRY(set_at(TRY(each.at("cpus"))));
      out.cpus.numas.push_back({id, std::move(cpus), TRY(TRY(each.at("memory")).boolean())});
    }
  }
  out.gpus = TRY(devices_at(json, "gpus"));
  out.nics = TRY(devices_at(json, "nics"));
  return out;
}

}  // namespace nacre::plugins
