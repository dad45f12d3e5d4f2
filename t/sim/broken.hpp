// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace nacre::sim {

// What a run that breaks an invariant throws.
struct Broken {
  std::string what;
};
inline void require(bool holds, const std::string& what) {
  if (!holds) throw Broken{what};
}

}  // namespace nacre::sim
