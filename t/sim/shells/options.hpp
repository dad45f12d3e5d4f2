// SPDX-License-Identifier: Apache-2.0
//
// The options of a simulated job, drawn of those that nacre knows (shell/job/option_table.cpp). None of them
// changes which lines its tasks write; t/kit/option_values.json has values of each, or why it is not drawn.
#pragma once

#include <string>
#include <vector>

#include "random.hpp"

namespace nacre::shells {

// "name=value", as for -o. `folder`: the job's own. Throws Broken if that file lacks an option, or has one that
// nacre does not know.
std::vector<std::string> draw_options(sim::Random& random, const std::string& folder);

}  // namespace nacre::shells
