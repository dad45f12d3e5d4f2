// SPDX-License-Identifier: Apache-2.0
#include "elastic/replacements.hpp"

#include <array>

#include <catch2/catch.hpp>

using namespace nacre;  // NOLINT
using elastic::Replacements;

namespace {

constexpr std::array<Replacements::Spare, 3> kSpares{{{4, {2, 0}}, {5, {4, 2}}, {6, {8, 0}}}};

}  // namespace

TEST_CASE("the first spare that has what the tasks need takes them over") {
  Replacements replacements;
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 5);
  Replacements others;
  CHECK(others.choose(kSpares, {1, 0}).value() == 4);
  CHECK(others.choose(kSpares, {1, 1}).value() == 5);
}

TEST_CASE("a spare is promised once, until the log has the decision") {
  Replacements replacements;
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 5);
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 6);
  auto none = replacements.choose(kSpares, {4, 0});
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "the spare shell 4 has 2 cores, and they need 4 cores");
  replacements.ordered(6);
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 6);
}

TEST_CASE("why no spare takes over is said in words") {
  Replacements replacements;
  CHECK(replacements.choose({}, {1, 0}).error().message == "there is no spare left");
  CHECK(replacements.choose(kSpares, {1, 4}).error().message ==
        "the spare shell 4 has 2 cores and 0 gpus, and they need 1 core and 4 gpus");
}
