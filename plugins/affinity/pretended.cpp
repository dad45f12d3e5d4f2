// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/pretended.hpp"

namespace nacre::plugins {

Result<std::optional<job::MachineShape>> pretended_machine(const job::Options& options) {
  auto option = options.at("pretend");
  if (!option) return std::optional<job::MachineShape>();
  return std::optional(TRY(in("pretend", job::MachineShape::parse(TRY(option->string())))));
}

}  // namespace nacre::plugins
