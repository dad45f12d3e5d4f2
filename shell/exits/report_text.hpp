// SPDX-License-Identifier: Apache-2.0
//
// A failure report for people: nacre-exits(7), "THE FAILURE REPORT".
#pragma once

#include "base/json_fwd.hpp"
#include "base/usual.hpp"

namespace nacre::exits {

// Lines that begin with "nacre: ", at most a screen. `report`: as the plugin exit-report writes it; members that
// are missing or of another type are left out. `listed`: the job's id in the list of jobs, by which `nacre report`
// finds it; empty: it is not there, or `nacre report` itself prints this.
[[nodiscard]] std::string report_text(const Json& report, std::string_view listed = {});

// The last line of `text` that is not empty, as a report shows it: at most 160 bytes.
[[nodiscard]] std::string last_line_of(std::string_view text);

// The hosts and tasks that slow-watch has found to be slow, a line each; "": none.
[[nodiscard]] std::string slow_lines(const Json& report);

}  // namespace nacre::exits
