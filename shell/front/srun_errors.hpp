// SPDX-License-Identifier: Apache-2.0
//
// What srun(1) writes to its standard error about the shells of a job that it has started.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::front {

class SrunErrors {
 public:
  static constexpr std::size_t kMaxLine = 256;  // bytes of a line that are looked at

  // Bytes of srun's standard error, cut anywhere. Returns whether a line that ends in them reports that tasks of
  // the step, which are shells, have ended with an error: "srun: error: n2: task 2: Exited with exit code 13".
  bool take(std::string_view bytes);

  // The first signal by which a shell has ended: for SIGINT (2) srun reports "Interrupt", or the exit code 130 if
  // the shell has handled it. Only SIGHUP, SIGINT, SIGQUIT and SIGTERM: no other is meant to end a job.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }

 private:
  std::string line_;  // that has not ended, up to kMaxLine
  std::optional<int> signal_;
};

// Whether srun with these arguments puts the number of a task before each line, or $SLURM_LABELIO asks it to.
[[nodiscard]] bool labels_lines(const std::vector<std::string>& arguments);

}  // namespace nacre::front
