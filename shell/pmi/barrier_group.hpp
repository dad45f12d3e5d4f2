// SPDX-License-Identifier: Apache-2.0
//
// The processes of a barrier of PMI 1.2, as clients name them: "0,2,5:TAG", "WORLD:TAG" or "NODE:TAG". Several
// barriers of the same processes can be under way with different tags.
#pragma once

#include "base/result.hpp"

namespace nacre::pmi {

struct BarrierGroup {
  std::string members;               // "0-2,5", "WORLD" or "NODE"
  std::int32_t tag = 0;              // 0 if the client gave none
  std::vector<std::uint32_t> ranks;  // ascending, each once; empty for NODE and WORLD

  [[nodiscard]] bool is_world() const { return members == "WORLD"; }
  [[nodiscard]] bool is_node() const { return members == "NODE"; }
  // The same for all of its processes, in whatever order they name themselves.
  [[nodiscard]] std::string name() const { return fmt::format("{}:{}", members, tag); }

  // `size`: of all processes. An error names what is wrong.
  static Result<BarrierGroup> parse(std::string_view text, std::uint32_t size);
};

}  // namespace nacre::pmi
