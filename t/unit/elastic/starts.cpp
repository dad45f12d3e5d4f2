// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using elastic::ExpectedStarts;
using elastic::Starts;
using value::Idset;

namespace {

Idset ranks_of(const char* text) { return Idset::parse(text).value(); }

}  // namespace

TEST_CASE("each start of a task has a number, which leads back to it") {
  const Starts starts(6);
  CHECK(starts.number(0, 1) == 0);
  CHECK(starts.number(5, 1) == 5);
  CHECK(starts.number(2, 2) == 8);
  CHECK(starts.number(2, 4) == 20);
  auto by_start = starts.ranks(ranks_of("0-5"));
  CHECK(by_start.size() == 1);
  CHECK(by_start.at(1).str() == "0-5");
  by_start = starts.ranks(ranks_of("0,4-8,20"));  // a range over two starts
  CHECK(by_start.size() == 3);
  CHECK(by_start.at(1).str() == "0,4-5");
  CHECK(by_start.at(2).str() == "0-2");
  CHECK(by_start.at(4).str() == "2");
  CHECK(starts.ranks({}).empty());
}

TEST_CASE("numbers of starts end with those of an idset") {
  CHECK(Starts(1).most() == UINT32_MAX);
  CHECK(Starts(1).number(0, UINT32_MAX) == Idset::kMaxId);
  const Starts large(std::uint64_t{1} << 24);
  CHECK(large.most() == 255);
  CHECK(large.number((1U << 24) - 1, 255) <= Idset::kMaxId);
  auto by_start = large.ranks(Idset::range(large.number(7, 255), large.number(9, 255)));
  CHECK(by_start.at(255).str() == "7-9");
}

TEST_CASE("only the expected start of a rank counts, whatever comes late") {
  ExpectedStarts expected;
  CHECK(expected.current(ranks_of("0-5"), 1).str() == "0-5");
  CHECK(expected.current(ranks_of("0-5"), 2).empty());
  expected.expect(ranks_of("2-3"), 2);
  CHECK(expected.current(ranks_of("0-5"), 1).str() == "0-1,4-5");
  CHECK(expected.current(ranks_of("0-5"), 2).str() == "2-3");
  expected.expect(ranks_of("3"), 3);
  CHECK(expected.current(ranks_of("0-5"), 1).str() == "0-1,4-5");
  CHECK(expected.current(ranks_of("0-5"), 2).str() == "2");
  CHECK(expected.current(ranks_of("0-5"), 3).str() == "3");
  // A decision that was withdrawn is made again, with the same number.
  expected.expect(ranks_of("3"), 3);
  CHECK(expected.current(ranks_of("3"), 3).str() == "3");
}
