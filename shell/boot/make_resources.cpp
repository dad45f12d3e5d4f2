// SPDX-License-Identifier: Apache-2.0
#include "boot/make_resources.hpp"

#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/json.hpp"
#include "job/resources.hpp"
#include "value/hostlist.hpp"

namespace nacre::boot {
namespace {

using value::Idset;

// The part of shell `index` of `count`, out of ids that all these shells have.
Idset part_of(const Idset& ids, std::uint64_t index, std::uint64_t count) {
  std::uint64_t size = ids.size();
  Idset out;
  for (std::uint64_t n = size * index / count; n < size * (index + 1) / count; ++n) out.insert(*ids.nth(n));
  return out;
}

Idset cores_of(const Idset& cores, std::uint64_t index, std::uint64_t count) {
  if (cores.size() >= count) return part_of(cores, index, count);
  return Idset::range(*cores.nth(index % cores.size()), *cores.nth(index % cores.size()));
}

// With fewer gpus than shells the first shells get one each.
Idset gpus_of_shell(const Idset& gpus, std::uint64_t index, std::uint64_t count) {
  if (gpus.size() >= count) return part_of(gpus, index, count);
  auto id = gpus.nth(index);
  return id ? Idset::range(*id, *id) : Idset();
}

// Each shell's part; `which` is a member of NodeOffer.
std::vector<Idset> share(const std::vector<NodeOffer>& offers, Idset NodeOffer::*which,
                         Idset (*part)(const Idset&, std::uint64_t, std::uint64_t)) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> alike;  // shells by host and ids
  for (std::size_t i = 0; i < offers.size(); ++i)
    alike[{offers[i].hostname, (offers[i].*which).str()}].push_back(i);
  std::vector<Idset> out(offers.size());
  for (const auto& [key, shells] : alike) {
    const Idset& all = offers[shells[0]].*which;
    for (std::size_t i = 0; i < shells.size(); ++i) {
      out[shells[i]] = shells.size() == 1 || all.empty() ? all : part(all, i, shells.size());
    }
  }
  return out;
}

}  // namespace

Result<Json> make_resources(const std::vector<NodeOffer>& offers) {
  if (offers.empty() || offers.size() > job::Resources::kMaxNodes) {
    return invalid(
        fmt::format("R is made for 1 to {} shells, not for {}", job::Resources::kMaxNodes, offers.size()));
  }
  std::vector<Idset> cores = share(offers, &NodeOffer::cores, cores_of);
  std::vector<Idset> gpus = share(offers, &NodeOffer::gpus, gpus_of_shell);
  std::map<std::pair<std::string, std::string>, Idset> ranks;  // by cores and gpus
  value::Hostlist hosts;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    ranks[{cores[i].str(), gpus[i].str()}].insert(static_cast<Idset::Id>(i));
    hosts.append(offers[i].hostname);
  }
  Json entries = Json::array();
  for (const auto& [what, which] : ranks) {
    Json children{{"core", what.first}};
    if (!what.second.empty()) children["gpu"] = what.second;
    entries.push_back({{"rank", which.str()}, {"children", std::move(children)}});
  }
  Json execution{{"R_lite", std::move(entries)}, {"nodelist", {hosts.str()}}, {"starttime", 0}, {"expiration", 0}};
  return Json{{"version", 1}, {"execution", std::move(execution)}};
}

}  // namespace nacre::boot
