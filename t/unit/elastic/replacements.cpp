// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include "catch.hpp"

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
  replacements.ordered(6, 4);
  CHECK(replacements.choose(kSpares, {4, 0}).value() == 6);
}

TEST_CASE("tasks go to the shells with the fewest, as far as these have room; of equal ones to the first") {
  using Shells = std::vector<std::uint32_t>;
  constexpr std::array<Replacements::Other, 3> kOthers{{{2, 2, 1}, {1, 1, 2}, {0, 2, 4}}};
  Replacements replacements;
  CHECK(replacements.spread(kOthers, 4).value() == Shells{1, 2, 1, 0});
  auto none = replacements.spread(kOthers, 4);  // the room is already promised
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "the other shells have room for 3 of 4 tasks");
  replacements.ordered(1, 2);
  replacements.ordered(7, 1);
  CHECK(replacements.spread(kOthers, 4).value() == Shells{1, 1, 0, 0});
  CHECK(Replacements().spread({}, 1).error().message == "the other shells have room for 0 of 1 task");
}

TEST_CASE("a spare that is promised gets no tasks of others") {
  constexpr std::array<Replacements::Other, 2> kOthers{{{4, 0, 2}, {0, 5, 2}}};
  Replacements replacements;
  CHECK(replacements.choose(kSpares, {1, 0}).value() == 4);
  CHECK(replacements.spread(kOthers, 1).value() == std::vector<std::uint32_t>{0});
}

TEST_CASE("why no spare takes over is said in words") {
  Replacements replacements;
  CHECK(replacements.choose({}, {1, 0}).error().message == "there is no spare left");
  CHECK(replacements.choose(kSpares, {1, 4}).error().message ==
        "the spare shell 4 has 2 cores and 0 gpus, and they need 1 core and 4 gpus");
}
