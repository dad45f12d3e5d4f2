// SPDX-License-Identifier: Apache-2.0
#include "exits/policy.hpp"

#include <algorithm>

namespace nacre::exits {

int Policy::code(const Outcomes& outcomes) const {
  int code = 0;
  for (const auto& [record, ranks] : outcomes.classes()) code = std::max(code, record.code());
  return code;
}

}  // namespace nacre::exits
