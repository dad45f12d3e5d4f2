// SPDX-License-Identifier: Apache-2.0
//
// The name Json, for headers that only pass it on.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace nacre {
using Json = nlohmann::json;
}
