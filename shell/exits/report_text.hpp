// SPDX-License-Identifier: Apache-2.0
//
// A failure report for people: nacre-exits(7), "THE FAILURE REPORT".
#pragma once

#include <string>

#include "base/json_fwd.hpp"

namespace nacre::exits {

// Lines that begin with "nacre: "; at most a screen. `report`: as the plugin exit-report writes it; what is missing or of another
// type is left out.
[[nodiscard]] std::string report_text(const Json& report);

}  // namespace nacre::exits
