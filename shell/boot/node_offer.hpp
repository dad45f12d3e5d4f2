// SPDX-License-Identifier: Apache-2.0
//
// What a shell's node has for the job, as far as this process may use it: R is made of it if no R was given.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "boot/allocation.hpp"
#include "task/cpu_rights.hpp"
#include "value/idset.hpp"

namespace nacre::boot {

struct NodeOffer {
  std::string hostname;
  value::Idset cores;  // with R's numbers: see job_cpus.hpp; at least one
  value::Idset gpus;

  // One line of JSON: {"hostname", "cores", "gpus"}. Errors name the member.
  [[nodiscard]] std::string text() const;
  static Result<NodeOffer> parse(std::string_view text);
  bool operator==(const NodeOffer&) const = default;
};

// The offer of this process; its gpus are those of task::find_gpus(). `system` is the folder in which the kernel
// describes the machine.
Result<NodeOffer> own_offer(const Variables& variables, const std::string& system = task::kSystemDirectory);

}  // namespace nacre::boot
