// SPDX-License-Identifier: Apache-2.0
//
// Topologies of machines that are not at hand: hwloc's synthetic ones, and those of t/kit/topology_xml.py.
#pragma once

#include <cstdio>
#include <string>

#include <fmt/format.h>
#include "catch.hpp"

#include "fake_machine.hpp"
#include "folder.hpp"
#include "plugins/affinity/hwloc.hpp"

namespace nacre::kit {

inline plugins::NodeTopology node_of(const std::optional<std::string>& file) {
  auto loaded = plugins::HwlocTopology::load(plugins::HwlocTopology::Devices::important, file);
  INFO((loaded ? "" : loaded.error().message));
  REQUIRE(loaded);
  auto node = loaded->node();
  INFO((node ? "" : node.error().message));
  REQUIRE(node);
  return *std::move(node);
}

// As "package:2 numa:2 core:4 pu:2".
inline plugins::NodeTopology synthetic(const std::string& description) {
  ScopedVariable xml("HWLOC_XMLFILE", nullptr);
  ScopedVariable components("HWLOC_COMPONENTS", nullptr);
  ScopedVariable variable("HWLOC_SYNTHETIC", description.c_str());
  return node_of(std::nullopt);
}

// Writes what the script makes of these arguments.
inline void write_machine(const std::string& arguments, const std::string& file) {
  std::string command = fmt::format("python3 {}/t/kit/topology_xml.py {} >{}", NACRE_SOURCE_DIR, arguments, file);
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT: of this test's own words
}

inline plugins::NodeTopology machine(const std::string& arguments) {
  TemporaryFolder folder;
  std::string file = folder.path("machine.xml");
  write_machine(arguments, file);
  return node_of(file);
}

}  // namespace nacre::kit
