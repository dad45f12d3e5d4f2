// SPDX-License-Identifier: Apache-2.0
//
// The plugin `doctor`'s findings, as its leader answers `doctor` (doc/control.md), read and put into words.
#pragma once

#include "base/json.hpp"
#include "doctor/findings.hpp"

namespace nacre::front {

struct DoctorAnswer {
  doctor::Examination examination;  // its hosts are those of the groups that are on one host
  std::vector<doctor::Verdict> verdicts;

  static Result<DoctorAnswer> parse(const Json& answer);
  [[nodiscard]] std::string text(const doctor::TextOptions& options) const {
    return doctor::text_of(examination, verdicts, options);
  }
};

}  // namespace nacre::front
