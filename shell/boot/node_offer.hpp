// SPDX-License-Identifier: Apache-2.0
//
// What a shell's node has for the job, as far as this process may use it: what R is made of where nobody has given one.
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
  value::Idset cores;  // as R names them: job_cpus.hpp; at least one
  value::Idset gpus;

  // One line of JSON: {"hostname", "cores", "gpus"}. Errors name the member.
  [[nodiscard]] std::string text() const;
  static Result<NodeOffer> parse(std::string_view text);
  bool operator==(const NodeOffer&) const = default;
};

// Of this process. `system` is where the kernel describes the machine.
Result<NodeOffer> own_offer(const Variables& variables, const std::string& system = task::kSystemDirectory);

// The gpus that a manager has given, by the first of these variables that is a list of numbers: CUDA_VISIBLE_DEVICES,
// ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK, SLURM_STEP_GPUS, SLURM_JOB_GPUS. The first of them number
// the gpus as the libraries of the tasks do. None: empty.
[[nodiscard]] value::Idset gpus_of(const Variables& variables);

}  // namespace nacre::boot
