// SPDX-License-Identifier: Apache-2.0
//
// Coprocesses: programs that run beside the tasks of a job, one process of each on a node. The shell option
// `coprocess` is an object with a member for each, by name, which is an object too, as in flux-shell-options(7):
//
//   command  the program and its arguments; or text for /bin/sh. May have templates, see plugin/tags.hpp
//   output   a template of the file for stdout and stderr; coproc-NAME-{{id}}.log by default
//   ranks    an idset of shell ranks (RFC 22), one such rank as a number, or "all", which is the default
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::job {

struct Coprocess {
  std::string name;
  std::vector<std::string> command;   // not empty, and neither is its first element
  std::string output;                 // not empty
  std::optional<value::Idset> ranks;  // not empty; none: all

  // A name has letters, digits, '-' and '_' only: it is part of a file's name, and the name of an option.
  static Result<void> check_name(std::string_view name);
  // Reads one entry. Errors start with its path.
  static Result<Coprocess> read(std::string name, const JsonAt& entry);

  [[nodiscard]] bool runs_on(std::uint32_t shell_rank) const { return !ranks || ranks->contains(shell_rank); }
};

// All coprocesses of the option, by name; at least one. Includes those of shells that the job does not have.
Result<std::vector<Coprocess>> read_coprocesses(const JsonAt& option);

}  // namespace nacre::job
