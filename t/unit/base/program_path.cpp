// SPDX-License-Identifier: Apache-2.0
#include "base/program.hpp"

#include <sys/stat.h>

#include "catch.hpp"

#include "folder.hpp"
#include "variable.hpp"

using namespace nacre;  // NOLINT

TEST_CASE("a program is in the PATH if it can be executed there") {
  kit::TemporaryFolder folder;
  kit::Variable path("PATH", "/no/such/folder:" + folder.path(""));
  CHECK_FALSE(is_in_path("tool"));
  std::string file = folder.file("tool", "");
  CHECK_FALSE(is_in_path("tool"));
  REQUIRE(::chmod(file.c_str(), 0755) == 0);
  CHECK(is_in_path("tool"));
  kit::Variable usual("PATH", "/usr/bin:/bin");
  CHECK(is_in_path("sh"));
  CHECK_FALSE(is_in_path("tool"));
}
