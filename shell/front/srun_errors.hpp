// SPDX-License-Identifier: Apache-2.0
//
// What srun(1) writes to its standard error about the shells of a job that it has started.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "value/idset.hpp"

namespace nacre::front {

class SrunErrors {
 public:
  static constexpr std::size_t kMaxLine = 4096;        // bytes of a line that are looked at
  static constexpr std::size_t kMaxKept = 256U << 10;  // bytes of such lines

  // Bytes of srun's standard error, cut anywhere. Looks for lines that report that tasks of the step, which are
  // shells, have ended with an error: "srun: error: n2: task 2: Exited with exit code 13". Returns what is to be
  // passed on: all but the beginning of what may be such a line.
  std::string take(std::string_view bytes);
  // From now on such lines are kept, and not passed on.
  void keep() { keeps_ = true; }
  // From now on all lines of srun and slurmstepd are kept: this process ends the step.
  void ends_step() { ends_step_ = true; }
  // The lines that were kept, and a line that has not ended.
  [[nodiscard]] std::string kept() const { return kept_; }
  [[nodiscard]] std::string rest() const { return line_; }

  [[nodiscard]] const value::Idset& ended() const { return ended_; }  // the shells that have, by those lines

  // The first signal by which a shell has ended: for SIGINT (2) srun reports "Interrupt", or the exit code 130 if
  // the shell has handled it. Only SIGHUP, SIGINT, SIGQUIT and SIGTERM: no other is meant to end a job.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }

 private:
  [[nodiscard]] bool may_be_kept() const;
  bool take_line();

  std::string line_;          // that has not ended, up to kMaxLine
  bool passes_line_ = false;  // the rest of this line is passed on
  bool keeps_ = false;
  bool ends_step_ = false;
  std::string kept_;
  value::Idset ended_;
  std::optional<int> signal_;
};

// Whether srun with these arguments puts the number of a task before each line, or $SLURM_LABELIO asks it to.
[[nodiscard]] bool labels_lines(const std::vector<std::string>& arguments);

}  // namespace nacre::front
