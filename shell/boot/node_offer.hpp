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

// The offer of this process. `system` is the folder in which the kernel describes the machine.
Result<NodeOffer> own_offer(const Variables& variables, const std::string& system = task::kSystemDirectory);

// The gpus that a manager has given, by the first of these variables that is a list of numbers:
// CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK, SLURM_STEP_GPUS,
// SLURM_JOB_GPUS. The first ones use the numbers of the tasks' libraries. None: empty.
[[nodiscard]] value::Idset gpus_of(const Variables& variables);

}  // namespace nacre::boot
