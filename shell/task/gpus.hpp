// SPDX-License-Identifier: Apache-2.0
//
// The gpus of this host that a process may use.
#pragma once

#include "value/idset.hpp"

namespace nacre::task {

struct Gpus {
  value::Idset ids;  // as the libraries of the tasks number them
  // Where a manager has given names and no numbers, as CUDA_VISIBLE_DEVICES=MIG-6c4ab0f2-...: the variable, and the
  // name of each id, from 0 on.
  std::string variable;
  std::vector<std::string> names;
};

// By the first of these that is a list of numbers: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES,
// ZE_AFFINITY_MASK, SLURM_STEP_GPUS, SLURM_JOB_GPUS; else by the first of the first four that is a list of names.
// Where one of those is set and is neither, nothing is to be seen, and there are none. Where none is set, what the
// kernel has: those of NVIDIA (/dev/nvidia0, ...) that may be opened, else AMD's (kfd's topology), else Intel's
// that are no part of a processor (/sys/class/drm). `root`: where /dev and /sys are, for tests.
[[nodiscard]] Gpus find_gpus(const std::function<std::optional<std::string>(const char*)>& variables,
                             const std::string& root = "");

}  // namespace nacre::task
