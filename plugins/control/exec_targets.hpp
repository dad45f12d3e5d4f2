// SPDX-License-Identifier: Apache-2.0
//
// Where a command beside the tasks is to run: what a front end asks for, as shells and ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/json.hpp"
#include "job/job.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

struct ExecTargets {
  std::map<std::uint32_t, value::Idset> shares;  // ranks by shell; empty: the shell itself
  bool is_all = false;                           // nothing in particular was asked for: what is lost is left out

  // Reads ranks, shells, hosts and exclude (doc/control.md). At least one target.
  static Result<ExecTargets> read(const JsonAt& request, const job::Job& job);
};

// The name of a shell's host, or "shell N" where R has none.
[[nodiscard]] std::string host_of(const job::Job& job, std::uint32_t shell);

}  // namespace nacre::plugins
