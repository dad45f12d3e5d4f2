// SPDX-License-Identifier: Apache-2.0
//
// The options of a simulated job, drawn of those that nacre knows (shell/job/option_table.cpp). None of them
// changes which lines its tasks write; each that nacre knows is drawn, or named here with the reason why not.
#pragma once

#include <string>
#include <vector>

#include "random.hpp"

namespace nacre::shells {

// "name=value", as for -o. `folder`: the job's own. Throws Defect if an option is not known here, or not known to
// nacre.
std::vector<std::string> draw_options(sim::Random& random, const std::string& folder);

}  // namespace nacre::shells
