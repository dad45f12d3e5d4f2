// SPDX-License-Identifier: Apache-2.0
//
// How a fuzz target says that a property does not hold.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace nacre::fuzz {

// Ends the program, saying what broke, unless `holds`.
inline void require(bool holds, const std::string& property) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", property.c_str());
  std::abort();
}

}  // namespace nacre::fuzz
