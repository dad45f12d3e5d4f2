// SPDX-License-Identifier: Apache-2.0
#include "task/memory_policy.hpp"

#include <linux/mempolicy.h>

#include <algorithm>

#include <fmt/format.h>

#include "task/cpu_rights.hpp"

namespace nacre::task {
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
