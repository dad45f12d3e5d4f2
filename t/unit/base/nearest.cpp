// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <array>

#include "catch.hpp"

using nacre::edit_distance;
using nacre::nearest;

TEST_CASE("edits are bytes inserted, removed, replaced, and neighbours swapped") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("torch", "torch") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("exit-timout", "exit-timeout") == 1);
  CHECK(edit_distance("prot", "port") == 1);
  CHECK(edit_distance("launch", "lanuhc") == 2);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest name is the one with the fewest edits") {
  const std::array<std::string, 4> known{"exit-timeout", "exit-policy", "pty", "pmi"};
  CHECK(nearest("exit-timout", known) == "exit-timeout");
  CHECK(nearest("exit-poliyc", known) == "exit-policy");
  CHECK(nearest("pmy", known) == "pty");  // the first of two
}

TEST_CASE("there is none for a name that is known, and for one that is like no other") {
  const std::array<std::string, 2> known{"pty", "exit-policy"};
  CHECK_FALSE(nearest("pty", known));
  CHECK_FALSE(nearest("p", known));
  CHECK_FALSE(nearest("cpu-affinity", known));
  CHECK_FALSE(nearest("exit", {}));
}

TEST_CASE("the question for the nearest name ends an error") {
  const std::array<std::string, 3> known{"launch", "run", std::string(101, 'a')};
  CHECK(nacre::did_you_mean("lanch", known) == "; did you mean launch?");
  CHECK(nacre::did_you_mean("xyz", known).empty());
  CHECK(nacre::did_you_mean("", known).empty());
  CHECK(nacre::did_you_mean(std::string(100, 'a'), known).empty());  // only that of 101 bytes is near
  CHECK(nacre::did_you_mean(std::string(100000, 'a'), known).empty());
}
