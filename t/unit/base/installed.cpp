// SPDX-License-Identifier: Apache-2.0
#include "base/program.hpp"

#include <filesystem>

#include "catch.hpp"

using nacre::InstalledTree;

namespace {

const std::filesystem::path kProgram = std::filesystem::read_symlink("/proc/self/exe");

}  // namespace

TEST_CASE("what is beside the program is found there, and the first of several") {
  const InstalledTree tree("/meant/to/be");
  std::string name = kProgram.filename();
  CHECK(tree.path({name.c_str()}, "/else") == kProgram);
  CHECK(tree.path({"no such file", name.c_str()}, "/else") == kProgram);
  std::string above = "../" + kProgram.parent_path().filename().string();
  CHECK(tree.path({above.c_str()}, "/else") == kProgram.parent_path());
}

TEST_CASE("what is not there is where the build has meant it to be") {
  const InstalledTree tree("/meant/to/be");
  CHECK(tree.path({"no such file"}, "/else") == "/else");
  std::string below = kProgram.filename().string() + "/initrc.lua";
  CHECK(tree.path({below.c_str()}, "/else") == "/else");
}

TEST_CASE("nothing is looked for if the program is where it was meant to be") {
  const InstalledTree tree(kProgram.parent_path().c_str());
  std::string name = kProgram.filename();
  CHECK(tree.path({name.c_str()}, "/else") == "/else");
}
