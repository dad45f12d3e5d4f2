// SPDX-License-Identifier: Apache-2.0
//
// A log of tasks in the columns of GNU parallel's --joblog, which programs read that are made for it.
#pragma once

#include <string>
#include <string_view>

#include "usage/row.hpp"

namespace nacre::usage {

// "Seq\tHost\t...\n".
[[nodiscard]] std::string joblog_head();
// One line, with its newline. Seq is the rank plus 1, as jobs of GNU parallel are counted from 1. `command`: for a
// shell; a newline or tab in it is shown as a blank.
[[nodiscard]] std::string joblog_line(const TaskRow& row, std::string_view host, std::string_view command);

}  // namespace nacre::usage
