// SPDX-License-Identifier: Apache-2.0
#include "front/place_rows.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "front/table.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kPlaceRanks = 24;  // bytes of ranks, and of hosts
constexpr std::size_t kPlaceWhere = 48;
constexpr std::size_t kPlaceWhy = 400;

struct AlikePlaced {
  const PlaceOfTask* first = nullptr;
  value::Idset ranks;
  std::vector<std::string> hosts;
};

// What is not as planned comes behind the reason.
std::string why_of_cpus(const PlaceOfTask& task) {
  std::string out = task.parts[0].why;
  if (!task.unset.empty())
    out += fmt::format("; not set: {}", task.unset);
  else if (!task.cpus_now.empty() && task.cpus_now != task.parts[0].where)
    out += fmt::format("; its process may use {} now", task.cpus_now);
  return out;
}

std::string hosts_text(const std::vector<std::string>& hosts) {
  value::Hostlist list;
  for (const std::string& each : hosts) {
    if (!each.empty()) list.append(each);  // R need not name them
  }
  return list.str();
}

void add_rows_of(const AlikePlaced& placed, std::vector<std::vector<std::string>>& out) {
  std::string ranks = printable(placed.ranks.str(), kPlaceRanks);
  std::string hosts = printable(hosts_text(placed.hosts), kPlaceRanks);
  for (std::size_t kind = 0; kind < PlaceOfTask::kKinds.size(); ++kind) {
    const PlaceOfTask::Part& part = placed.first->parts.at(kind);
    if (part == PlaceOfTask::Part{}) continue;
    bool is_cpus = kind == 0;
    out.push_back({std::exchange(ranks, ""), std::exchange(hosts, ""), std::string(PlaceOfTask::kKinds.at(kind)),
                   printable(part.where, kPlaceWhere),
                   printable(is_cpus ? why_of_cpus(*placed.first) : part.why, kPlaceWhy)});
  }
}

}  // namespace

Result<PlaceOfTask> PlaceOfTask::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  PlaceOfTask out;
  out.rank = static_cast<std::uint32_t>(TRY(TRY(at.at("rank")).integer(0, UINT32_MAX)));
  out.host = TRY(TRY(at.at("host")).string());
  JsonAt why = TRY(at.at("why"));
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    std::string where = TRY(TRY(at.at(kKinds.at(kind))).string());  // see group/statements.cpp
    std::string reason = TRY(TRY(why.at(kKinds.at(kind))).string());
    out.parts.at(kind) = {std::move(where), std::move(reason)};
  }
  out.cpus_now = TRY(TRY(at.at("cpus_now")).string());
  out.unset = TRY(TRY(at.at("unset")).string());
  return out;
}

std::vector<std::vector<std::string>> place_rows(const std::vector<PlaceOfTask>& tasks, bool folded) {
  using Key = std::tuple<std::array<PlaceOfTask::Part, PlaceOfTask::kKinds.size()>, std::string, std::string>;
  std::map<Key, std::size_t> known;
  std::vector<AlikePlaced> all;
  for (const PlaceOfTask& each : tasks) {
    auto [found, is_new] = known.try_emplace({each.parts, each.cpus_now, each.unset}, all.size());
    if (is_new || !folded) {
      found->second = all.size();
      all.push_back({&each, {}, {}});
    }
    AlikePlaced& of = all[found->second];
    of.ranks.insert(each.rank);
    if (std::find(of.hosts.begin(), of.hosts.end(), each.host) == of.hosts.end()) of.hosts.push_back(each.host);
  }
  std::vector<std::vector<std::string>> out;
  for (const AlikePlaced& each : all) add_rows_of(each, out);
  return out;
}

}  // namespace nacre::front
