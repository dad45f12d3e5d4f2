// SPDX-License-Identifier: Apache-2.0
//
// The gpus of this host that a process may use.
#pragma once

#include "value/idset.hpp"

namespace nacre::task {

struct Gpus {
  value::Idset ids;  // as the libraries of the tasks number them
  // If a manager has given names in place of numbers, as CUDA_VISIBLE_DEVICES=MIG-6c4ab0f2-...: the variable, and
  // the name of each id, from 0 on.
  std::string variable;
  std::vector<std::string> names;
};

// Found by the first of these variables that is a list of numbers: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES,
// HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK, SLURM_STEP_GPUS, SLURM_JOB_GPUS; otherwise by the first of the first four
// that is a list of names. If one is set and is neither, there are no gpus. If none is set, the kernel's gpus:
// those of NVIDIA (/dev/nvidia0, ...) that may be opened, or AMD's (kfd's topology), or Intel's that are not part
// of a processor (/sys/class/drm). `root`: where /dev and /sys are, for tests.
[[nodiscard]] Gpus find_gpus(const std::function<std::optional<std::string>(const char*)>& variables,
                             const std::string& root = "");

}  // namespace nacre::task
