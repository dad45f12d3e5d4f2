// SPDX-License-Identifier: Apache-2.0
//
// Numbers that depend on the seed alone, on every machine and with every library.
#pragma once

#include <cstdint>

namespace nacre::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 0x632be59bd9b4e019U) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // From `least` to `most`, both included.
  std::uint64_t in(std::uint64_t least, std::uint64_t most) { return least + next() % (most - least + 1); }
  bool one_in(std::uint64_t count) { return next() % count == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace nacre::sim
