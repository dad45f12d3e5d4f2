// SPDX-License-Identifier: Apache-2.0
//
// What the members of a group have put, as libpmix has it. Up to version 5 a node's libpmix passes on bytes of all
// its members, and gets those of all nodes with the answer. From 6 on it passes on infos of each member; those of
// all nodes it gets as resources, before the answer. What it passes on shows which of both it is.
#pragma once

#include <cstdint>
#include <string>

#include "info.hpp"

namespace nacre::pmix {

// Of this node's members, for all nodes; "": nothing.
[[nodiscard]] std::string group_data_of(const InfoList& directives);

struct GroupData {
  std::string bytes;
  InfoList infos;
};
[[nodiscard]] GroupData group_data_in(const std::string& text);

// The infos as libpmix takes them. `id`: 0: the group has none, and then no values that are found by it.
[[nodiscard]] InfoList resources_of(const InfoList& infos, std::uint64_t id);

}  // namespace nacre::pmix
