// SPDX-License-Identifier: Apache-2.0
//
// Makes R (RFC 20) from the offers of the shells.
#pragma once

#include "base/json_fwd.hpp"
#include "boot/allocation.hpp"
#include "task/cpus.hpp"

namespace nacre::boot {

// What a shell's node has for the job, as far as this process may use it: R is made of it if no R was given.
struct NodeOffer {
  std::string hostname;
  value::Idset cores;  // with R's numbers: see job_cpus.hpp; at least one
  value::Idset gpus;

  // One line of JSON: {"hostname", "cores", "gpus"}. Errors name the member.
  [[nodiscard]] std::string text() const;
  static Result<NodeOffer> parse(std::string_view text);
  bool operator==(const NodeOffer&) const = default;
};

// The offer of this process; its gpus are those of task::find_gpus(). `system` is the folder in which the kernel
// describes the machine.
Result<NodeOffer> own_offer(const Variables& variables, const std::string& system = task::kSystemDirectory);

// Execution target r is the shell of rank r, which offers offers[r]; there is at least one. Shells of one host that
// offer the same cores divide them, in the order of their ranks and as evenly as possible: otherwise the cores
// would be counted and used several times. With fewer cores than shells each shell gets one, and some share one.
// Gpus are divided in the same way, but with fewer gpus than shells the last shells get none. Shells to which their
// manager has given different cores keep them.
Result<Json> make_resources(const std::vector<NodeOffer>& offers);

}  // namespace nacre::boot
