// SPDX-License-Identifier: Apache-2.0
#include "job_cpus.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
constexpr std::size_t kMaskWords = 65536 / kWordBits;  // more cpus than any kernel is built for

Idset affinity_of_thread() {
  task::CpuMask mask(kMaskWords);
  Idset cpus;
  auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
  if (::sched_getaffinity(0, kMaskWords * sizeof(unsigned long), set) < 0) return cpus;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::size_t bit = 0; mask[word] != 0 && bit < kWordBits; ++bit) {
      if (mask[word] >> bit & 1UL) cpus.insert(static_cast<Idset::Id>(word * kWordBits + bit));
    }
  }
  return cpus;
}

void* ask_for_all_cpus(void* result) {
  task::CpuMask mask(kMaskWords, ~0UL);
  ::sched_setaffinity(0, kMaskWords * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data()));
  *static_cast<Idset*>(result) = affinity_of_thread();
  return nullptr;
}

// The kernel cuts what is asked for down to what the cgroup grants. Affinity is a thread's own: that of this one
// stays as it is.
Idset cpus_of_cgroup() {
  Idset cpus;
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, ask_for_all_cpus, &cpus) != 0) return affinity_of_thread();
  ::pthread_join(thread, nullptr);
  return cpus;
}

// What is left of each core within `cpus`, without the cores of which nothing is.
std::vector<Idset> within(const std::vector<Idset>& cores, const Idset& cpus) {
  std::vector<Idset> out;
  for (const Idset& core : cores) {
    if (Idset left = core & cpus; !left.empty()) out.push_back(std::move(left));
  }
  return out;
}

Error no_such_core(Idset::Id id, std::size_t count) {
  return invalid(fmt::format("R gives core {} of this node, which has {}", id,
                             count == 1 ? "1 core (0)" : fmt::format("{} cores (0-{})", count, count - 1)));
}

Result<std::vector<Idset>> ask_hwloc(plugin::Host& host) {
  plugin::Call call("hwloc.cores");
  if (TRY(host.stack().call(call)) == 0) {
    return Error{ENOENT,
                 "the order of this node's cores is known to hwloc only, and no plugin answers to hwloc.cores"};
  }
  std::vector<Idset> cores;
  for (const JsonAt& each : TRY(TRY(JsonAt::root(call.out, "hwloc.cores").at("cores")).elements())) {
    cores.push_back(TRY(in(each.path(), Idset::parse(TRY(each.string())))));
  }
  return cores;
}

// The ids are 0, 1, ... without a hole: with as many ids as cores, these are all of them.
bool from_zero(const Idset& ids) { return ids.ranges().size() == 1 && ids.first() == 0U; }

}  // namespace

Result<CpuRights> read_cpu_rights(const std::string& system) {
  CpuRights rights;
  rights.online = TRY(read_online_cpus(system));
  rights.allowed = affinity_of_thread() & rights.online;
  // A thread that may use all cpus is in no cgroup that forbids some.
  rights.cgroup = rights.allowed == rights.online ? rights.online : cpus_of_cgroup() & rights.online;
  return rights;
}

Result<std::vector<Idset>> pick_cores(const Idset& ids, const std::vector<Idset>& cores, const CpuRights& rights) {
  if (rights.allowed != rights.online) {
    std::vector<Idset> own = within(cores, rights.allowed);
    if (own.size() == ids.size()) return own;
  }
  std::vector<Idset> known = within(cores, rights.cgroup);
  std::vector<Idset> picked;
  for (Idset::Id id : ids.ids()) {
    if (id >= known.size()) return no_such_core(id, known.size());
    if (Idset usable = known[id] & rights.allowed; !usable.empty()) picked.push_back(std::move(usable));
  }
  if (!picked.empty() || ids.empty()) return picked;
  return invalid(fmt::format(
      "the job has core{} {}, of which the shell may use nothing: it is confined to cpu{} {}",
      ids.size() == 1 ? "" : "s", ids.str(), rights.allowed.size() == 1 ? "" : "s", rights.allowed.str()));
}

Result<std::vector<Idset>> job_cores(plugin::Host& host, const CpuRights& rights) {
  auto cores = TRY(read_cores(rights.online));
  if (!cores) cores = TRY(ask_hwloc(host));
  return pick_cores(host.job().node().cores, *cores, rights);
}

Result<Idset> job_cpus(plugin::Host& host, const CpuRights& rights) {
  const Idset& ids = host.job().node().cores;
  bool confined = rights.allowed != rights.online;
  if (ids.size() == rights.allowed.size() && (confined || from_zero(ids)) && one_cpu_a_core(rights.online)) {
    return rights.allowed;
  }
  Idset cpus;
  for (const Idset& core : TRY(job_cores(host, rights))) cpus = cpus | core;
  return cpus;
}

task::CpuMask mask_of(const Idset& cpus) {
  task::CpuMask mask(cpus.empty() ? 0 : *cpus.last() / kWordBits + 1);
  for (Idset::Id cpu : cpus.ids()) mask[cpu / kWordBits] |= 1UL << (cpu % kWordBits);
  return mask;
}

}  // namespace nacre::plugins
