// SPDX-License-Identifier: Apache-2.0
#include "job/jobspec.hpp"

#include "catch.hpp"

using nacre::Json;
using nacre::JsonAt;
using nacre::job::CountRange;

namespace {

// The numbers from 0 to `most` that are in the range; or the error.
std::string counts(const Json& count, std::uint32_t most = 20) {
  auto range = CountRange::read(JsonAt::root(count, "count"));
  if (!range) return range.error().message;
  std::string out;
  for (std::uint32_t i = 0; i <= most; ++i) {
    if (range->contains(i)) out += (out.empty() ? "" : " ") + std::to_string(i);
  }
  return out;
}

constexpr const char* kText = "count: expected a positive integer, or a range as 2-8, 4+, 2-8:2 or 2-16:2:*, got ";

}  // namespace

TEST_CASE("a number is a range of one") {
  CHECK(counts(4) == "4");
  CHECK(CountRange::read(JsonAt::root(4)).value().is_fixed());
  CHECK(counts("4") == "4");
}

TEST_CASE("ranges of RFC 14 and RFC 45") {
  CHECK(counts("2-5") == "2 3 4 5");
  CHECK(counts("4,9,16") == "4 9 16");
  CHECK(counts("18+") == "18 19 20");
  CHECK(counts("2-9:3") == "2 5 8");
  CHECK(counts("3+:5") == "3 8 13 18");
  CHECK(counts("2-20:2:*") == "2 4 8 16");
  CHECK(counts("2+:2:^", 300) == "2 4 16 256");
  CHECK(counts({{"min", 18}}) == "18 19 20");
  CHECK(counts({{"min", 3}, {"max", 9}, {"operator", "+"}, {"operand", 2}}) == "3 5 7 9");
  CHECK(counts({{"min", 1}, {"max", 9}, {"operator", "*"}, {"operand", 3}}) == "1 3 9");
  CHECK_FALSE(CountRange::read(JsonAt::root(Json("2-5"))).value().is_fixed());
  CHECK(CountRange::read(JsonAt::root(Json("2-5"))).value().min() == 2);
}

TEST_CASE("a count that is none") {
  CHECK(counts(0) == "count: expected a positive integer, got 0");
  CHECK(counts(16777217) == "count: at most 16777216, got 16777217");
  for (const char* text :
       {"", "0", "0-4", "x", "5-", "4:", "2-8:0", "2-8:2:%", "2-8:2:*:3", "+", "16777217", "-3+"}) {
    INFO(text);
    CHECK(counts(text) == kText + Json(text).dump());
  }
  CHECK(counts("8-2:2") == "count: max 2 is below min 8");
  CHECK(counts({{"min", 8}, {"max", 2}}) == "count: max 2 is below min 8");
  CHECK(counts({{"min", 1}, {"operator", "+"}}) == "count: `operator` and `operand` go together");
  CHECK(counts({{"min", 1}, {"operator", "-"}, {"operand", 1}}) ==
        "count.operator: expected one of +, *, ^, got \"-\"");
  CHECK(counts("2-8:1:*") == "count: the operator * needs an operand of at least 2");
  CHECK(counts("1-8:2:^") == "count: the operator ^ needs a min of at least 2");
  CHECK(counts({{"max", 4}}) == "count: missing key 'min'");
  CHECK(counts({{"min", 4}, {"most", 4}}).starts_with("count.most: unknown key"));
}

TEST_CASE("the largest count up to a number, and the range as text") {
  auto range = [](const Json& count) { return CountRange::read(JsonAt::root(count)).value(); };
  CHECK(range("2-8").largest(9) == 8);
  CHECK(range("2-8").largest(5) == 5);
  CHECK_FALSE(range("2-8").largest(1));
  CHECK(range("2-8:2").largest(7) == 6);
  CHECK(range("2+:2:*").largest(63) == 32);
  CHECK(range("4,9,16").largest(15) == 9);
  CHECK(range("2-8").str() == "2:8");
  CHECK(range("4+").str() == "4:");
  CHECK(range("2-8:2").str() == "2-8:2:+");
  CHECK(range("2+:2:^").str() == "2+:2:^");
  CHECK(range("4,9").str() == "4,9");
}
