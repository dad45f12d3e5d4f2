// SPDX-License-Identifier: Apache-2.0
#include "front/escape_keys.hpp"

#include <utility>

namespace nacre::front {

EscapeKeys::Typed EscapeKeys::take(std::string_view bytes) {
  Typed out;
  for (char each : bytes) {
    bool is_escaped = std::exchange(has_tilde_, false);
    if (is_escaped && each == '.') {
      out.leaves = true;
      return out;
    }
    if (is_escaped) out.keys += '~';
    if (is_escaped && each == '~') {
      at_line_ = false;
      continue;
    }
    has_tilde_ = !is_escaped && at_line_ && each == '~';
    if (has_tilde_) continue;
    at_line_ = each == '\r' || each == '\n';
    out.keys += each;
  }
  return out;
}

}  // namespace nacre::front
