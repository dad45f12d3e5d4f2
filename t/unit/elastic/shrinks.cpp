// SPDX-License-Identifier: Apache-2.0
#include "elastic/roster.hpp"

#include <random>

#include "catch.hpp"

using namespace nacre;  // NOLINT
using elastic::Shrinks;
using value::Idset;
using value::Shrunk;

namespace {

Idset shells_of(const char* text) { return Idset::parse(text).value(); }

}  // namespace

TEST_CASE("shells of an order leave together, once all are ready") {
  Shrinks shrinks;
  Idset fresh;
  auto order = shrinks.open(shells_of("1,3"), fresh);
  CHECK(fresh.str() == "1,3");
  CHECK(shrinks.is_leaving(3));
  CHECK_FALSE(shrinks.is_leaving(2));
  shrinks.ready(3);
  CHECK_FALSE(shrinks.take_ready());
  shrinks.ready(1);
  CHECK(shrinks.take_ready().value().str() == "1,3");
  CHECK_FALSE(shrinks.take_ready());
  CHECK_FALSE(shrinks.take_ended());
  shrinks.ended({shells_of("1,3"), {}});
  CHECK(shrinks.take_ended().value() == std::pair(order, Shrunk{shells_of("1,3"), {}}));
  CHECK_FALSE(shrinks.take_ended());
  CHECK_FALSE(shrinks.is_open());
  CHECK(shrinks.left().str() == "1,3");
}

TEST_CASE("orders that overlap: each shell leaves once, and both have its end") {
  Shrinks shrinks;
  Idset first;
  Idset second;
  auto one = shrinks.open(shells_of("1-2"), first);
  auto two = shrinks.open(shells_of("2-3"), second);
  CHECK(second.str() == "3");
  shrinks.ready(3);
  CHECK(shrinks.take_ready().value().str() == "3");
  shrinks.ended({shells_of("3"), {}});
  CHECK_FALSE(shrinks.take_ended());
  shrinks.overdue(one);
  CHECK(shrinks.take_ready().value().str() == "1-2");
  shrinks.ended({shells_of("1"), shells_of("2")});
  CHECK(shrinks.take_ended().value() == std::pair(one, Shrunk{shells_of("1"), shells_of("2")}));
  CHECK(shrinks.take_ended().value() == std::pair(two, Shrunk{shells_of("3"), shells_of("2")}));
}

TEST_CASE("a shell that is lost while it leaves is not waited for, and is confirmed if it has ended") {
  Shrinks shrinks;
  Idset fresh;
  auto order = shrinks.open(shells_of("1-2"), fresh);
  CHECK_FALSE(shrinks.lost(5, true));
  CHECK(shrinks.lost(1, false));
  CHECK_FALSE(shrinks.lost(1, true));
  shrinks.ready(2);
  CHECK(shrinks.take_ready().value().str() == "2");
  shrinks.ended({shells_of("2"), {}});
  CHECK(shrinks.take_ended().value() == std::pair(order, Shrunk{shells_of("2"), shells_of("1")}));
  // All shells of an order have gone: nothing is left to be taken out.
  order = shrinks.open(shells_of("7"), fresh);
  CHECK(shrinks.lost(7, true));
  CHECK_FALSE(shrinks.take_ready());
  CHECK(shrinks.take_ended().value() == std::pair(order, Shrunk{shells_of("7"), {}}));
}

TEST_CASE("in whatever order things happen, each order ends once, and each shell leaves once") {
  std::mt19937 random(Catch::getSeed());
  auto in = [&](std::uint32_t least, std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    Shrinks shrinks;
    Idset left;
    std::map<Shrinks::Order, Idset> open;
    std::vector<Idset> taken;
    for (int step = 0; step < 200 || !open.empty(); ++step) {
      std::uint32_t shell = in(1, 12);
      switch (step < 200 ? in(0, 4) : in(1, 4)) {
        case 0: {
          Idset shells;
          for (std::uint32_t count = in(1, 4); count > 0; --count) shells.insert(in(1, 12));
          shells = shells - (left - shrinks.left());
          Idset fresh;
          auto order = shrinks.open(shells, fresh);
          CHECK((fresh & left).empty());
          left = left | fresh;
          open.emplace(order, shells);
          break;
        }
        case 1: shrinks.ready(shell); break;
        case 2: shrinks.lost(shell, in(0, 1) == 1); break;
        case 3:
          if (!open.empty()) shrinks.overdue(open.begin()->first);
          break;
        case 4:
          if (taken.empty()) break;
          shrinks.ended({taken.back(), {}});
          taken.pop_back();
          break;
      }
      while (auto next = shrinks.take_ready()) taken.push_back(*std::move(next));
      while (auto end = shrinks.take_ended()) {
        auto found = open.extract(end->first);
        REQUIRE(found);
        CHECK((end->second.gone | end->second.unconfirmed) == found.mapped());
        CHECK((end->second.gone & end->second.unconfirmed).empty());
      }
      REQUIRE(step < 20000);
    }
    CHECK_FALSE(shrinks.is_open());
  }
}
