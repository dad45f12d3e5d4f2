// SPDX-License-Identifier: Apache-2.0
//
// The commands of Slurm by which a job gets another allocation, beside that in which it was started, and ends it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "task/command_run.hpp"
#include "value/hostlist.hpp"

namespace nacre::core {

struct SlurmRequest {
  std::string job;   // the allocation that the other one is to be like: its partition, account, CPUs a node, ...
  std::string name;  // of the new one
  std::uint64_t count = 1;  // nodes
  value::Hostlist hosts;    // these; empty: any
  value::Hostlist without;  // none of these
};

using SlurmCommand = task::CommandRun::What;

// Waits until Slurm gives the nodes, and writes the allocation's id and its hosts: `8 node[2-3]`. Its time limit is
// what is left of that of `job`.
[[nodiscard]] SlurmCommand slurm_request(const SlurmRequest& request);
// Withdraws a request of this name that is still pending, and writes why it is.
[[nodiscard]] SlurmCommand slurm_withdraw(const std::string& name);
[[nodiscard]] SlurmCommand slurm_end(const std::string& allocation);
// Ends all that has this name, pending or not.
[[nodiscard]] SlurmCommand slurm_end_all(const std::string& name);
// Ends an allocation that the job has got, and whose leader is lost: run by a shell there, in the step `step`, as
// the last thing that it does. The shell with the lowest step waits until no other is left, and the others leave
// at once; nothing is done if the allocation has another name, or if others are there after a minute.
[[nodiscard]] SlurmCommand slurm_end_left(const std::string& allocation, const std::string& name,
                                          const std::string& step);
// What starts a shell on a host of an allocation, called as ssh is.
[[nodiscard]] std::vector<std::string> slurm_agent(const std::string& allocation);

}  // namespace nacre::core
