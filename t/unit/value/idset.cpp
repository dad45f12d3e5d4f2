// SPDX-License-Identifier: Apache-2.0
#include "value/idset.hpp"
#include "fewer.hpp"

#include <random>

#include "catch.hpp"

using nacre::value::Idset;
using Ids = std::vector<Idset::Id>;
using Ranges = std::vector<Idset::Range>;

namespace {

Idset set_of(std::string_view text) {
  INFO(text);
  auto set = Idset::parse(text);
  if (!set) FAIL(set.error().message);
  return *set;
}

nacre::Error idset_error(std::string_view text) {
  INFO(text.substr(0, 100));
  auto set = Idset::parse(text);
  REQUIRE_FALSE(set);
  return set.error();
}

// Sorted, disjoint, and not touching each other.
bool well_formed(const Idset& set) {
  const Ranges& ranges = set.ranges();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].first > ranges[i].last) return false;
    if (i > 0 && ranges[i].first <= ranges[i - 1].last + 1) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("RFC 22's examples parse to their ids and print compressed") {
  CHECK(set_of("1,2,3,5,6,42").ids() == Ids{1, 2, 3, 5, 6, 42});
  CHECK(set_of("1-3,5-6,42").ids() == Ids{1, 2, 3, 5, 6, 42});
  CHECK(set_of("[1-3,5-6,42]").ids() == Ids{1, 2, 3, 5, 6, 42});
  CHECK(set_of("1,2,3,5,6,42").str() == "1-3,5-6,42");
  CHECK(set_of("1-3,5-6,42").str(true) == "[1-3,5-6,42]");
}

TEST_CASE("an idset prints with brackets only if asked to, and only around several ids") {
  struct Row {
    const char* text;
    Ids ids;
    const char* plain;
    const char* bracketed;
  };
  const Row rows[] = {
      {"", {}, "", ""},
      {"[]", {}, "", ""},
      {"0", {0}, "0", "0"},
      {"[2]", {2}, "2", "2"},
      {"3-3", {3}, "3", "3"},
      {"7-9", {7, 8, 9}, "7-9", "[7-9]"},
      {"[2,3,4,5]", {2, 3, 4, 5}, "2-5", "[2-5]"},
      {"1-2,3-4", {1, 2, 3, 4}, "1-4", "[1-4]"},
      {"1,7-9,14,16", {1, 7, 8, 9, 14, 16}, "1,7-9,14,16", "[1,7-9,14,16]"},
      {"1048576", {1048576}, "1048576", "1048576"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    Idset set = set_of(row.text);
    CHECK(set.ids() == row.ids);
    CHECK(set == Idset::of(row.ids));
    CHECK(set.size() == row.ids.size());
    CHECK(set.empty() == row.ids.empty());
    CHECK(set.str() == row.plain);
    CHECK(set.str(true) == row.bracketed);
  }
}

TEST_CASE("in a message an idset has at most sixteen ranges") {
  Idset ids;
  for (Idset::Id id = 0; id < 32; id += 2) ids.insert(id);
  CHECK(ids.short_str() == "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30");
  ids.insert(100, 199);
  CHECK(ids.short_str() == "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30, ... (116 in all)");
  CHECK(Idset::range(3, 5).short_str() == "3-5");
  CHECK(Idset().short_str().empty());
}

TEST_CASE("a malformed idset is refused with what is wrong") {
  struct Row {
    const char* text;
    const char* why;
  };
  const Row rows[] = {
      {"x", "expected an id, got 'x'"},
      {"4.2", "expected an id, got '4.2'"},
      {"1-2x", "expected an id, got '2x'"},
      {"+5", "expected an id, got '+5'"},
      {"0x10", "expected an id, got '0x10'"},
      {"1:2", "expected an id, got '1:2'"},
      {" 1", "expected an id, got ' 1'"},
      {"1 ", "expected an id, got '1 '"},
      {"1, 2", "expected an id, got ' 2'"},
      {"1-\t2", "expected an id, got '\\x092'"},
      {" ", "expected an id, got ' '"},
      {",", "expected an id, got nothing"},
      {"1,", "expected an id, got nothing"},
      {",1", "expected an id, got nothing"},
      {"1,,2", "expected an id, got nothing"},
      {"[1,]", "expected an id, got nothing"},
      {"-", "expected an id, got nothing"},
      {"-5", "expected an id, got nothing"},
      {"[-5]", "expected an id, got nothing"},
      {"0-", "expected an id, got nothing"},
      {"1--2", "expected an id, got '-2'"},
      {"1-2-3", "expected an id, got '2-3'"},
      {"01,2", "id '01' has leading zeros"},
      {"00", "id '00' has leading zeros"},
      {"1-02", "id '02' has leading zeros"},
      {"3-0", "the range '3-0' goes backwards"},
      {"3,2", "ids must ascend, each once, but '2' follows 3"},
      {"2,2", "ids must ascend, each once, but '2' follows 2"},
      {"0-5,5-6", "ids must ascend, each once, but '5-6' follows 5"},
      {"[0", "'[' without ']'"},
      {"[", "'[' without ']'"},
      {"0]", "']' without '['"},
      {"]", "']' without '['"},
      {"[[0]]", "expected an id, got '[0]'"},
      {"[0,2]]", "expected an id, got '2]'"},
      {"0,[2", "expected an id, got '[2'"},
      {"0]2", "expected an id, got '0]2'"},
      {"[0],[2]", "expected an id, got '0]'"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    nacre::Error error = idset_error(row.text);
    CHECK_THAT(error.message, Catch::Matchers::StartsWith("idset '") && Catch::Matchers::EndsWith(row.why));
    CHECK(error.code == EINVAL);
  }
  CHECK(idset_error("1-2x").message == "idset '1-2x': expected an id, got '2x'");
  CHECK(idset_error(std::string_view("1\0,2", 4)).message == "idset '1\\x00,2': expected an id, got '1\\x00'");
}

TEST_CASE("ids end at kMaxId") {
  STATIC_REQUIRE(Idset::kMaxId == 4294967294U);
  CHECK(set_of("4294967294").ids() == Ids{Idset::kMaxId});
  Idset all = set_of("0-4294967294");
  CHECK(all.size() == 4294967295U);
  CHECK(all.str() == "0-4294967294");
  CHECK(all.nth(4294967294U) == Idset::kMaxId);
  CHECK_FALSE(all.next(Idset::kMaxId));
  CHECK_FALSE(all.contains(Idset::kMaxId + 1));
  CHECK((all - set_of("5")).str() == "0-4,6-4294967294");
  all.insert(Idset::kMaxId);
  all.remove(Idset::kMaxId - 1);
  CHECK(all.str() == "0-4294967292,4294967294");

  const char* beyond = "expected an id up to 4294967294, got ";
  for (const char* text : {"4294967295", "4294967296", "18446744073709551616", "99999999999999999999999999"}) {
    nacre::Error error = idset_error(text);
    CHECK(error.code == ERANGE);
    CHECK_THAT(error.message, Catch::Matchers::EndsWith(beyond + ("'" + std::string(text) + "'")));
  }
  CHECK(idset_error("[0-99999999999]").message ==
        "idset '[0-99999999999]': expected an id up to 4294967294, got '99999999999'");
}

TEST_CASE("an idset's text ends at kMaxText") {
  std::string text(Idset::kMaxText, '1');
  text.replace(0, 2, "x,");
  CHECK_THAT(idset_error(text).message, Catch::Matchers::EndsWith("expected an id, got 'x'"));
  nacre::Error error = idset_error(text + "1");
  CHECK(error.code == E2BIG);
  CHECK(error.message == "idset: expected at most 16777216 bytes, got 16777217");
}

TEST_CASE("an error shows the head of a long idset") {
  std::string text;
  for (int id = 0; id < 1000; ++id) text += std::to_string(2 * id) + ",";
  nacre::Error error = idset_error(text + "x");
  CHECK_THAT(error.message, Catch::Matchers::StartsWith("idset '0,2,4,6") &&
                                Catch::Matchers::EndsWith("...': expected an id, got 'x'"));
  CHECK(error.message.size() < 140);
}

TEST_CASE("the members of an idset can be asked for one by one") {
  Idset set = set_of("2-4,8,10-11");
  CHECK(set.first() == 2U);
  CHECK(set.last() == 11U);
  CHECK(set.contains(4));
  CHECK_FALSE(set.contains(5));
  CHECK_FALSE(set.contains(1));
  CHECK_FALSE(set.contains(12));
  CHECK(set.next(0) == 2U);
  CHECK(set.next(2) == 3U);
  CHECK(set.next(4) == 8U);
  CHECK(set.next(10) == 11U);
  CHECK_FALSE(set.next(11));
  CHECK_FALSE(set.next(UINT32_MAX));
  CHECK(set.prev(UINT32_MAX) == 11U);
  CHECK(set.prev(11) == 10U);
  CHECK(set.prev(10) == 8U);
  CHECK(set.prev(8) == 4U);
  CHECK(set.prev(3) == 2U);
  CHECK_FALSE(set.prev(2));
  CHECK_FALSE(set.prev(0));
  CHECK(set.nth(0) == 2U);
  CHECK(set.nth(3) == 8U);
  CHECK(set.nth(5) == 11U);
  CHECK_FALSE(set.nth(6));
  CHECK(set.ranges() == Ranges{{2, 4}, {8, 8}, {10, 11}});

  Idset none;
  CHECK_FALSE(none.first());
  CHECK_FALSE(none.last());
  CHECK_FALSE(none.next(0));
  CHECK_FALSE(none.prev(1));
  CHECK_FALSE(none.nth(0));
  CHECK_FALSE(none.contains(0));
  CHECK(none.ids().empty());
}

TEST_CASE("ids come in any order, with repeats") {
  CHECK(Idset::of(Ids{}).empty());
  CHECK(Idset::of(Ids{5, 1, 3, 2, 5, 1}).str() == "1-3,5");
  CHECK(Idset::of(Ids{1, 1, 2, 2}).str() == "1-2");
  CHECK(Idset::of(Ids{Idset::kMaxId, 0, 65536, 65535, 2048, 4194304}).str() ==
        "0,2048,65535-65536,4194304,4294967294");
  CHECK(Idset::range(3, 7).str() == "3-7");
  CHECK(Idset::range(3, 3).str() == "3");
  CHECK(Idset::range(4, 3).empty());
}

TEST_CASE("inserting joins what touches") {
  Idset set;
  set.insert(5);
  set.insert(7);
  CHECK(set.str() == "5,7");
  set.insert(6);
  CHECK(set.str() == "5-7");
  set.insert(0);
  set.insert(10, 12);
  set.insert(20, 22);
  CHECK(set.str() == "0,5-7,10-12,20-22");
  set.insert(4, 3);
  CHECK(set.str() == "0,5-7,10-12,20-22");
  set.insert(8, 19);
  CHECK(set.str() == "0,5-22");
  set.insert(6, 9);
  CHECK(set.str() == "0,5-22");
  set.insert(1, 30);
  CHECK(set.str() == "0-30");
}

TEST_CASE("removing splits and cuts") {
  Idset set = set_of("0-9,20-29,40-49");
  set.remove(5);
  CHECK(set.str() == "0-4,6-9,20-29,40-49");
  set.remove(15);
  set.remove(7, 6);
  CHECK(set.str() == "0-4,6-9,20-29,40-49");
  set.remove(9, 20);
  CHECK(set.str() == "0-4,6-8,21-29,40-49");
  set.remove(3, 45);
  CHECK(set.str() == "0-2,46-49");
  set.remove(0);
  CHECK(set.str() == "1-2,46-49");
  set.remove(2, UINT32_MAX);
  CHECK(set.str() == "1");
  set.remove(1);
  CHECK(set.empty());
  set.remove(0, UINT32_MAX);
  CHECK(set.empty());
}

TEST_CASE("set algebra on ranges that overlap, touch and nest") {
  Idset a = set_of("0-9,20-29");
  Idset b = set_of("5-24,29-30");
  CHECK((a | b).str() == "0-30");
  CHECK((a & b).str() == "5-9,20-24,29");
  CHECK((a - b).str() == "0-4,25-28");
  CHECK((b - a).str() == "10-19,30");
  CHECK((a | Idset()) == a);
  CHECK((a & Idset()).empty());
  CHECK((a - Idset()) == a);
  CHECK((a - a).empty());
  CHECK((set_of("0-4") | set_of("5-9")).str() == "0-9");
  CHECK((set_of("0-9") - set_of("2,4,6")).str() == "0-1,3,5,7-9");
}

TEST_CASE("random idsets behave as std::set does") {
  std::mt19937 random(22);
  auto below = [&](std::uint32_t limit) { return static_cast<Idset::Id>(random() % limit); };
  for (int round = 0; round < 300; ++round) {
    std::uint32_t span = 1 + below(120);
    Idset set[2];
    std::set<Idset::Id> model[2];
    for (int step = 0; step < 60; ++step) {
      auto which = below(2);
      Idset::Id first = below(span);
      Idset::Id last = first + below(6);
      if (below(3) > 0) {
        set[which].insert(first, last);
        for (Idset::Id id = first; id <= last; ++id) model[which].insert(id);
      } else {
        set[which].remove(first, last);
        for (Idset::Id id = first; id <= last; ++id) model[which].erase(id);
      }
      REQUIRE(set[which].ids() == Ids(model[which].begin(), model[which].end()));
      REQUIRE(well_formed(set[which]));
    }
    auto check = [&](const Idset& result, auto algorithm) {
      Ids expected;
      algorithm(model[0].begin(), model[0].end(), model[1].begin(), model[1].end(), std::back_inserter(expected));
      REQUIRE(result.ids() == expected);
      REQUIRE(well_formed(result));
      REQUIRE(result == Idset::of(expected));
      REQUIRE(set_of(result.str()) == result);
      REQUIRE(set_of(result.str(true)) == result);
      for (std::size_t n = 0; n < expected.size(); ++n) REQUIRE(result.nth(n) == expected[n]);
    };
    check(set[0] | set[1], [](auto... each) { std::set_union(each...); });
    check(set[0] & set[1], [](auto... each) { std::set_intersection(each...); });
    check(set[0] - set[1], [](auto... each) { std::set_difference(each...); });
    for (Idset::Id id = 0; id < span + 8; ++id) {
      REQUIRE(set[0].contains(id) == (model[0].count(id) == 1));
      auto after = model[0].upper_bound(id);
      REQUIRE(set[0].next(id) == (after == model[0].end() ? std::nullopt : std::optional<Idset::Id>(*after)));
      auto from = model[0].lower_bound(id);
      bool lowest = from == model[0].begin();
      REQUIRE(set[0].prev(id) == (lowest ? std::nullopt : std::optional<Idset::Id>(*std::prev(from))));
    }
  }
}

TEST_CASE("a few ranges are added to many, and cut by many, as the same in any other way") {
  std::mt19937 random(23);
  auto below = [&](std::uint32_t limit) { return static_cast<Idset::Id>(random() % limit); };
  for (int round = 0; round < 2000; ++round) {
    Idset many;
    for (Idset::Id id = below(5); id < 400; id += 2 + below(6)) many.insert(id, id + below(2));
    Idset few;
    for (int i = 0; i < 3; ++i) few.insert(below(420));
    if (round % 2 == 0) few.insert(below(100), 100 + below(300));
    Idset rest;
    for (Idset::Id id : few.ids()) {
      if (!many.contains(id)) rest.insert(id);
    }
    REQUIRE(few - many == rest);
    Idset both = many;
    both.insert(few);
    REQUIRE(both == (many | few));
    REQUIRE(well_formed(both));
    few.insert(many);
    REQUIRE(few == both);
  }
}

TEST_CASE("the first ids are taken off, by the length of their text") {
  Idset left = set_of("0-3,7,10,100-200");
  CHECK(left.take_first(5).str() == "0-3,7");
  CHECK(left.take_first(9).str() == "10");  // with the next it would be 10 bytes
  CHECK(left.take_first(0).str() == "100-200");
  CHECK(left.take_first(100).empty());
  left = set_of("1,3");
  CHECK(left.take_first(3).str() == "1,3");
  CHECK(left.empty());
}

TEST_CASE("very many ids, contiguous, alternating and shuffled") {
  constexpr Idset::Id kCount = nacre::kit::fewer<Idset::Id>(1'000'000);
  Ids ids(kCount);
  std::iota(ids.begin(), ids.end(), 0);
  CHECK(Idset::of(ids).ranges() == Ranges{{0, kCount - 1}});
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  CHECK(Idset::of(ids).ranges() == Ranges{{0, kCount - 1}});

  for (Idset::Id i = 0; i < kCount; ++i) ids[i] = 2 * i;
  Idset even = Idset::of(ids);
  CHECK(even.ranges().size() == kCount);
  CHECK(set_of(even.str()) == even);
  Idset odd = Idset::range(0, 2 * kCount - 1) - even;
  CHECK(odd.size() == kCount);
  CHECK((even & odd).empty());
  CHECK((even | odd).str() == "0-" + std::to_string(2 * kCount - 1));
  CHECK(even.ids() == ids);
  std::uint64_t count = 0;
  for (auto id = even.first(); id; id = even.next(*id)) ++count;
  CHECK(count == kCount);
}
