// SPDX-License-Identifier: Apache-2.0
//
// Rows for tests.
#pragma once

#include "usage/measure.hpp"
#include "usage/table.hpp"

namespace nacre::usage {

inline TaskRow row_of(std::uint32_t rank, double wall = 1, std::uint64_t max_rss = std::uint64_t{10} << 20) {
  TaskRow out;
  out.rank = rank;
  out.started = 1e9 + rank;
  out.wall = wall;
  out.user = wall / 2;
  out.system = wall / 4;
  out.max_rss = max_rss;
  out.out = 100;
  out.err = 0;
  return out;
}

inline Hosts two_hosts() {
  return {[](std::uint32_t rank) { return "n" + std::to_string(rank / 4); },
          [](std::uint32_t shell) { return "n" + std::to_string(shell); }};
}

}  // namespace nacre::usage
