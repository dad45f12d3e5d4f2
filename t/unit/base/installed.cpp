// SPDX-License-Identifier: Apache-2.0
#include "base/installed.hpp"

#include <filesystem>

#include <catch2/catch.hpp>

using nacre::installed_path;

TEST_CASE("what is beside the program is found there, and the first of several") {
  auto program = std::filesystem::read_symlink("/proc/self/exe");
  std::string name = program.filename();
  CHECK(installed_path({name.c_str()}, "/else") == program);
  CHECK(installed_path({"no such file", name.c_str()}, "/else") == program);
  std::string above = "../" + program.parent_path().filename().string();
  CHECK(installed_path({above.c_str()}, "/else") == program.parent_path());
}

TEST_CASE("what is not there is where the build has meant it to be") {
  CHECK(installed_path({"no such file"}, "/else") == "/else");
  std::string below = std::filesystem::read_symlink("/proc/self/exe").filename().string() + "/initrc.lua";
  CHECK(installed_path({below.c_str()}, "/else") == "/else");
}
