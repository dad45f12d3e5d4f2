// SPDX-License-Identifier: Apache-2.0
//
// Shell options and members of the jobspec that are not read: most of them are misspelt.
#pragma once

#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/result.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"

namespace nacre::core {

// To be called once the plugins have read their options. A line for each option that is set, that nobody has asked
// for and that is not in job::option_table(), with the name that may be meant; one for each that only a file of the
// installed initrc reads, which no initrc of this job has loaded; and one for each member of the
// jobspec's attributes.system that is near to one that is read. Others may be members that a manager reads.
[[nodiscard]] std::vector<std::string> unread_options(const job::Options& options, const job::Jobspec& spec);

// Logs these lines as warnings. With the option `strict` the first is the error.
Result<void> report_unread_options(const job::Options& options, const job::Jobspec& spec, Log& log);

}  // namespace nacre::core
