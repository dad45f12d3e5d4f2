// SPDX-License-Identifier: Apache-2.0
#include "elastic/growth.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::elastic {
namespace {

Result<value::Idset> ids_at(const JsonAt& at) { return in(at.path(), value::Idset::parse(TRY(at.string()))); }

Result<Growth::Shell> shell_of(const JsonAt& at) {
  constexpr std::size_t kMembers = 5;
  std::vector<JsonAt> members = TRY(at.elements());
  if (members.size() != kMembers) return at.expected("[RANK, HOST, CORES, GPUS, HAS_COME]");
  Growth::Shell out;
  out.rank = static_cast<std::uint32_t>(TRY(members[0].integer(1, UINT32_MAX)));
  out.hostname = TRY(members[1].string());
  out.cores = TRY(ids_at(members[2]));
  out.gpus = TRY(ids_at(members[3]));
  out.has_come = TRY(members[4].boolean());
  return out;
}

}  // namespace

Json Growth::json() const {
  Json out = Json::array();
  for (const Shell& each : shells)
    out.push_back(Json::array({each.rank, each.hostname, each.cores.str(), each.gpus.str(), each.has_come}));
  return out;
}

Result<Growth> Growth::parse(const JsonAt& at) {
  Growth out;
  for (const JsonAt& each : TRY(at.elements())) {
    Shell shell = TRY(shell_of(each));
    bool follows = out.shells.empty() || shell.rank == out.shells.back().rank + 1;
    if (!follows) return each.error(fmt::format("expected shell {}", out.shells.back().rank + 1));
    out.shells.push_back(std::move(shell));
  }
  return out;
}

bool Growth::has(std::uint32_t rank) const {
  return std::any_of(shells.begin(), shells.end(), [&](const Shell& each) { return each.rank == rank; });
}

}  // namespace nacre::elastic
