// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

template class nlohmann::basic_json<>;
