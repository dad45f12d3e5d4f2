// SPDX-License-Identifier: Apache-2.0
//
// A jobspec and an R for tests of the shell: some nodes with the same number of one-core tasks on each.
#pragma once

#include "boot/identity.hpp"

namespace nacre::kit {

inline std::string jobspec_of(std::uint32_t nodes, std::uint32_t tasks, const std::vector<std::string>& command,
                              const Json& options) {
  Json core{{"type", "core"}, {"count", 1}};
  Json slot{{"type", "slot"}, {"count", tasks}, {"label", "task"}, {"with", Json::array({core})}};
  Json node{{"type", "node"}, {"count", nodes}, {"with", Json::array({slot})}};
  Json task{{"command", command}, {"slot", "task"}, {"count", {{"per_slot", 1}}}};
  Json system{{"duration", 0}, {"shell", {{"options", options}}}};
  return Json{{"version", 1},
              {"resources", Json::array({node})},
              {"tasks", Json::array({task})},
              {"attributes", {{"system", system}}}}
      .dump();
}

inline std::string resources_of(std::uint32_t nodes, std::uint32_t tasks) {
  Json ids{{"rank", fmt::format("0-{}", nodes - 1)}, {"children", {{"core", fmt::format("0-{}", tasks - 1)}}}};
  Json execution{{"R_lite", Json::array({ids})},
                 {"nodelist", Json::array({fmt::format("node[0-{}]", nodes - 1)})},
                 {"starttime", 0},
                 {"expiration", 0}};
  return Json{{"version", 1}, {"execution", execution}}.dump();
}

}  // namespace nacre::kit
