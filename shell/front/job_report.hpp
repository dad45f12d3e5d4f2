// SPDX-License-Identifier: Apache-2.0
//
// What `nacre report` prints of a job, as text; see nacre-report(1).
#pragma once

#include <optional>
#include <string>

#include "base/json.hpp"
#include "record/entry.hpp"

namespace nacre::front {

// The lines on the job itself.
[[nodiscard]] std::string head_of(const record::JobEntry& entry);

// The exit code that another policy gives.
struct OtherCode {
  std::string policy;
  int code = 0;
};
// How it has ended; it has.
[[nodiscard]] std::string end_of(const record::JobEntry& entry, const std::optional<OtherCode>& other);

// How far it is; `exits`: as its leader answers `exits`.
[[nodiscard]] std::string progress_of(const record::JobEntry& entry, const Json& exits);

}  // namespace nacre::front
