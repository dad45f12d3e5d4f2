// SPDX-License-Identifier: Apache-2.0
//
// Not "base/json.hpp": that deletes a member which the library itself uses, of values that it has looked at.

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/usual.hpp"

template class nlohmann::basic_json<>;

namespace nacre {

static const Json kNone;

const Json& member_of(const Json& value, std::string_view name) {
  if (!value.is_object()) return kNone;
  auto found = value.find(name);
  return found == value.end() ? kNone : *found;
}

const Json& find_at(const Json& value, const Json::json_pointer& pointer) {
  return value.contains(pointer) ? value[pointer] : kNone;
}

}  // namespace nacre
