// SPDX-License-Identifier: Apache-2.0
//
// Who this shell is and who the others are, before they can speak to each other. nacre-boot(7) describes the ways for people.
//
//   standalone  alone
//   pmi         a manager with a PMI-1 server (PMI_FD): the shells' addresses and the leader's secret are its keys
//   pmix        a manager with a PMIx server (PMIX_NAMESPACE, PMIX_RANK): the same, by libpmix
//   slurm       a step of Slurm without PMI: one shell a node; the secret from a file or from srun's standard input; ports by
//               agreement (transport/agreed_ports.hpp)
//   hosts       started by another shell or by `nacre launch`: secret and launch record on standard input
//
// automatic takes the first of pmi, pmix, slurm and standalone that the environment speaks of.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "boot/allocation.hpp"
#include "group/membership.hpp"
#include "launch/record.hpp"
#include "value/jobid.hpp"

namespace nacre::boot {

enum class Way { automatic, standalone, pmi, pmix, slurm, hosts };

[[nodiscard]] std::string_view way_name(Way way);
Result<Way> parse_way(std::string_view name);  // an error lists the names

struct BootRequest {
  static constexpr double kTimeout = 60;

  Way way = Way::automatic;
  Variables variables;
  std::string version;  // of this program
  std::optional<std::string> secret_file;
  std::optional<value::JobId> id;                          // none: the manager's, or a new one
  std::uint32_t arity = group::Membership::kDefaultArity;  // pmi: shell 0's counts; hosts: the record's
  double timeout = kTimeout;                               // seconds for each step that waits for others
  int input = STDIN_FILENO;
};

struct Boot {
  Way way = Way::standalone;  // not automatic
  std::string how;  // one line: "pmi: PMI_FD is set: rank 1 of 4", with why those before it were not taken
  value::JobId id;
  std::optional<group::Membership> membership;  // none: this shell is alone
  std::optional<launch::LaunchRecord> record;   // of `hosts`, and of slurm started by `nacre launch --srun`
  // What was standard input, where that is the launcher's (`record` is there); /dev/null has taken its place. The leader's
  // goes on with the launcher's stream (launch_stream.hpp).
  UniqueFd launcher;
  std::string launcher_bytes;  // of the stream, read already
};

// May wait, and for pmi and slurm it binds sockets: to be called before the loop runs and before there are threads. Errors
// say which variables there are, and what to do.
Result<Boot> boot(const BootRequest& request);

}  // namespace nacre::boot
