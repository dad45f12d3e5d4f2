// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace nacre::join {

// What only the leader is given, and shells that join its job later. The texts have the names of their files, for
// errors.
struct LeaderGiven {
  struct Text {
    std::string name;
    std::string text;
  };
  std::optional<Text> jobspec;
  std::optional<Text> resources;  // none: R is made of the shells' offers
  std::vector<std::string> options;
  bool has_input = false;  // standard input is not /dev/null
};

}  // namespace nacre::join
