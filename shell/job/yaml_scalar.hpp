// SPDX-License-Identifier: Apache-2.0
//
// The type of a YAML scalar: YAML 1.2, section 10.3.2, the core schema.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"

namespace nacre::job {

// `tag` is the full tag, or "!" for a scalar in quotes, or "?" or "" for a plain one without a tag. Whole numbers
// that 64 bits cannot hold become doubles, as in JSON. Refused are infinity and NaN, numbers too large for a
// double, a text that does not fit its tag, and tags that the schema does not have.
Result<Json> yaml_scalar(std::string_view tag, std::string_view text);

}  // namespace nacre::job
