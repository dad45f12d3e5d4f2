// SPDX-License-Identifier: Apache-2.0
//
// `sim --explore`: every order in which things can happen to a few members, within bounds.
#pragma once

#include <string_view>
#include <vector>

namespace nacre::sim {

// False: an invariant is broken, or not all states were seen.
bool run_exploration(const std::vector<std::string_view>& words);

}  // namespace nacre::sim
