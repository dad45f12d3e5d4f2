// SPDX-License-Identifier: Apache-2.0
//
// Documents that tests of jobspecs change.
#pragma once

#include "base/json.hpp"
#include "job/jobspec.hpp"

namespace nacre::jobspecs {

inline Json slot_document() {
  return Json::parse(R"({
    "version": 1,
    "resources": [{"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 3}]}],
    "tasks": [{"command": ["app", "-x", ""], "slot": "task", "count": {"per_slot": 1}}],
    "attributes": {"system": {"duration": 0}}
  })");
}

inline Json node_document() {
  Json document = slot_document();
  Json slot = document["resources"][0];
  document["resources"][0] = {{"type", "node"}, {"count", 2}, {"with", Json::array({slot})}};
  return document;
}

// The error of a document, changed at one place.
inline std::string error_with(Json document, const char* pointer, Json value) {
  document[Json::json_pointer(pointer)] = std::move(value);
  auto spec = job::Jobspec::from_json(std::move(document));
  return spec ? "accepted" : spec.error().message;
}

inline std::string error_with(const char* pointer, Json value) {
  return error_with(slot_document(), pointer, std::move(value));
}

}  // namespace nacre::jobspecs
