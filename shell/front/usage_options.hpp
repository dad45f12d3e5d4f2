// SPDX-License-Identifier: Apache-2.0
//
// The options of a verb that runs a job: what is kept of what its tasks use. --usage is the shell's `usage`,
// --joblog its `joblog`, --usage-plot its `usage-plot`, --usage-gpu its `usage-gpu`; files are of this host.
#pragma once

#include <string>
#include <vector>

#include "front/given_options.hpp"
#include "front/launch_reports.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

class UsageOptions {
 public:
  void add_to(cli::CommandLine& verb);

  [[nodiscard]] std::vector<GivenOption> given() const;
  // Options in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // The files.
  [[nodiscard]] std::vector<LaunchReport> reports() const;

 private:
  [[nodiscard]] bool prints() const;

  std::string usage_;  // "": not given; "true": without a value
  std::string joblog_;
  std::string plot_;
  bool gpus_ = false;
};

}  // namespace nacre::front
