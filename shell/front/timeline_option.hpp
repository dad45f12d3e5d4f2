// SPDX-License-Identifier: Apache-2.0
//
// The option --timeline of a verb that runs a job, the shell's `timeline`; its file is of this host.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "front/given_options.hpp"
#include "front/launch_reports.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

class TimelineOption {
 public:
  void add_to(cli::CommandLine& verb);

  [[nodiscard]] std::vector<GivenOption> given() const;
  // Options in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // The file. An error: it cannot be written.
  [[nodiscard]] Result<std::vector<LaunchReport>> reports() const;

 private:
  [[nodiscard]] bool prints() const;

  std::string file_;  // "": not given; "true": without a value
};

}  // namespace nacre::front
