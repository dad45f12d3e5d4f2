// SPDX-License-Identifier: Apache-2.0
//
// The options of `nacre run` for a rehearsal: what is done to the job, see job/rehearsal.hpp.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "front/given_options.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

class RehearseOptions {
 public:
  void add_to(cli::CommandLine& verb);

  [[nodiscard]] std::vector<GivenOption> given() const;
  // Options in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // An error: this process is within an allocation of a manager, or `by_srun` starts the shells, and that is not
  // forced.
  [[nodiscard]] Result<void> allow(bool by_srun) const;

 private:
  std::string events_;  // "": none
  bool force_ = false;
};

}  // namespace nacre::front
