// SPDX-License-Identifier: Apache-2.0
#include "task/cpu_rights.hpp"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace nacre::task {
namespace {

using value::Idset;

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
constexpr std::size_t kMaskWords = 65536 / kWordBits;  // more cpus than any kernel is built for

void* ask_for_all_cpus(void* result) {
  CpuMask mask(kMaskWords, ~0UL);
  ::sched_setaffinity(0, kMaskWords * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data()));
  *static_cast<Idset*>(result) = cpus_allowed_to(0);
  return nullptr;
}

// sched_setaffinity(2) with all cpus leaves those that the cgroup grants. A thread of its own makes the call, as
// affinity belongs to a thread: the caller's does not change.
Idset cpus_of_cgroup() {
  Idset cpus;
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, ask_for_all_cpus, &cpus) != 0) return cpus_allowed_to(0);
  ::pthread_join(thread, nullptr);
  return cpus;
}

}  // namespace

Result<CpuRights> read_cpu_rights(const std::string& system) {
  CpuRights rights;
  auto online = read_online_cpus(system);
  if (!online && online.error().code != ENOENT) return std::move(online).error();
  rights.online = online ? *std::move(online) : cpus_of_cgroup();
  rights.allowed = cpus_allowed_to(0) & rights.online;
  // If a thread may use all cpus, its cgroup forbids none.
  rights.cgroup = rights.allowed == rights.online ? rights.online : cpus_of_cgroup() & rights.online;
  return rights;
}

std::vector<Idset> cores_within(const std::vector<Idset>& cores, const Idset& cpus) {
  std::vector<Idset> out;
  for (const Idset& core : cores) {
    if (Idset left = core & cpus; !left.empty()) out.push_back(std::move(left));
  }
  return out;
}

CpuMask mask_of(const Idset& cpus) {
  CpuMask mask(cpus.empty() ? 0 : *cpus.last() / kWordBits + 1);
  for (Idset::Id cpu : cpus.ids()) mask[cpu / kWordBits] |= 1UL << (cpu % kWordBits);
  return mask;
}

Idset cpus_allowed_to(pid_t process) {
  CpuMask mask(kMaskWords);
  auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
  if (::sched_getaffinity(process, kMaskWords * sizeof(unsigned long), set) < 0) return {};
  return set_of(mask);
}

Idset set_of(const CpuMask& mask) {
  Idset set;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::size_t bit = 0; mask[word] != 0 && bit < kWordBits; ++bit) {
      if (mask[word] >> bit & 1UL) set.insert(static_cast<Idset::Id>(word * kWordBits + bit));
    }
  }
  return set;
}

// ---- memory policy ----------------------------------------------------------------------

namespace {

constexpr int kPreferMany = 5;  // MPOL_PREFERRED_MANY, which older headers lack

struct PolicyName {
  std::string_view text;
  int mode;
};
constexpr PolicyName kPolicyNames[] = {
    {"bind", MPOL_BIND}, {"prefer", MPOL_PREFERRED}, {"prefer", kPreferMany}, {"interleave", MPOL_INTERLEAVE}};

}  // namespace

std::optional<MemoryPolicy> memory_policy(std::string_view name, const value::Idset& nodes) {
  const auto* found = std::find_if(std::begin(kPolicyNames), std::end(kPolicyNames),
                                   [&](const PolicyName& each) { return each.text == name; });
  if (found == std::end(kPolicyNames)) return std::nullopt;
  // MPOL_PREFERRED takes the first of several nodes, and passes over the others.
  int mode = found->mode == MPOL_PREFERRED && nodes.size() > 1 ? kPreferMany : found->mode;
  return MemoryPolicy{mode, mask_of(nodes)};
}

std::string memory_policy_text(const MemoryPolicy& policy) {
  const auto* found = std::find_if(std::begin(kPolicyNames), std::end(kPolicyNames),
                                   [&](const PolicyName& each) { return each.mode == policy.mode; });
  return fmt::format("{} {}",
                     found == std::end(kPolicyNames) ? fmt::format("{}", policy.mode) : std::string(found->text),
                     set_of(policy.nodes).str());
}

}  // namespace nacre::task
