// SPDX-License-Identifier: Apache-2.0
#include "boot/make_resources.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "job/resources.hpp"
#include "launch/own_sockets.hpp"
#include "task/gpus.hpp"
#include "value/hostlist.hpp"
#include "wire/json.hpp"

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
  std::vector<Idset> out(offers.size());
  auto has_none = [which](const NodeOffer& offer) { return (offer.*which).empty(); };
  if (std::all_of(offers.begin(), offers.end(), has_none)) return out;
  std::unordered_map<std::string, std::vector<std::size_t>> alike;  // shells by host and ids
  for (std::size_t i = 0; i < offers.size(); ++i)
    alike[offers[i].hostname + ' ' + (offers[i].*which).str()].push_back(i);
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

// ---- node offer -------------------------------------------------------------------------

namespace {

using value::Idset;

// The order in which hwloc would number the cores does not follow from the kernel's files. A shell that may use all
// of them offers 0, 1, ...; one that is confined to some of them offers 0 to one less than their number.
Result<Idset> cores_by_number(const task::CpuRights& rights, const std::string& system) {
  std::uint32_t count = 0;
  Idset seen;
  for (Idset::Id cpu : rights.allowed.ids()) {
    if (seen.contains(cpu)) continue;
    auto text = read_file(fmt::format("{}/cpu/cpu{}/topology/thread_siblings_list", system, cpu));
    if (auto siblings = text ? Idset::parse(trim(*text)) : Result<Idset>(invalid("")); siblings)
      seen = seen | *siblings;
    ++count;
  }
  if (count == 0) return invalid("this process may use no cpu");
  return Idset::range(0, count - 1);
}

Result<Idset> own_cores(const std::string& system) {
  task::CpuRights rights = TRY(task::read_cpu_rights(system));
  // Whoever may use all cores that its cgroup has needs no order of them, for which many more files are read.
  const std::vector<Idset> unordered =
      task::cores_within(TRY(task::read_unordered_cores(rights.online, system)), rights.cgroup);
  auto may_be_used = [&](const Idset& core) { return !(core & rights.allowed).empty(); };
  if (!unordered.empty() && std::all_of(unordered.begin(), unordered.end(), may_be_used))
    return Idset::range(0, static_cast<Idset::Id>(unordered.size() - 1));
  auto cores = TRY(task::read_cores(rights.online, system));
  if (!cores) return cores_by_number(rights, system);
  Idset out;
  std::vector<Idset> known = task::cores_within(*cores, rights.cgroup);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!(known[i] & rights.allowed).empty()) out.insert(static_cast<Idset::Id>(i));
  }
  if (out.empty()) return invalid("this process may use no cpu");
  return out;
}

constexpr auto kPossibleIds = [](const JsonAt& at, const Idset& ids) -> Result<void> {
  auto last = ids.last();
  if (!last || *last <= job::Resources::kMaxCoreId) return {};
  return at.error(fmt::format("id {}; the largest may be {}", *last, job::Resources::kMaxCoreId));
};

constexpr auto kOneHost = [](const JsonAt& at, const std::string& name) -> Result<void> {
  auto list = value::Hostlist::parse(name);
  return list && list->size() == 1 && list->nth(0) == name ? Result<void>() : at.expected("the name of a host");
};

}  // namespace

void fields(auto& io, wire::Of<NodeOffer> auto& m) {
  io.refuse_others(m);
  io.has("hostname", m.hostname, kOneHost);
  io.has("cores", m.cores, kPossibleIds);
  io.check("cores", !m.cores.empty(), "expected at least one core");
  io.has("gpus", m.gpus, kPossibleIds);
}

std::string NodeOffer::text() const { return wire::to_text(*this); }

Result<NodeOffer> NodeOffer::parse(std::string_view text) {
  return in("what a shell offers", wire::from_text<NodeOffer>(text));
}

Result<NodeOffer> own_offer(const Variables& variables, const std::string& system) {
  NodeOffer out;
  out.hostname = launch::own_host_name();
  if (out.hostname.empty()) out.hostname = "localhost";
  out.cores = TRY(own_cores(system));
  out.gpus = task::find_gpus(variables).ids;
  return out;
}

}  // namespace nacre::boot
