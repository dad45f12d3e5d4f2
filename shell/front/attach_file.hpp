// SPDX-License-Identifier: Apache-2.0
//
// What `nacre attach` shows of a job that went on without its launcher and has ended: the file beside its entry,
// which has all that would have come out at its terminal.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "record/list.hpp"

namespace nacre::front {

struct KeptOutput {
  std::optional<std::uint64_t> lines;  // the last ones; none: all
  bool json = false;                   // each line as {"data": ...}
};

// To standard output. False: the job has no such file.
Result<bool> show_kept_output(const record::JobList& list, const record::Listed& job, const KeptOutput& how);

}  // namespace nacre::front
