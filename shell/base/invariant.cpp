// SPDX-License-Identifier: Apache-2.0
#include "base/invariant.hpp"

#include <stdexcept>

#include "base/usual.hpp"

namespace nacre {

void report_broken(const char* condition, const char* file, int line) {
  throw std::logic_error(fmt::format("{}:{}: '{}' does not hold", file, line, condition));
}

}  // namespace nacre
