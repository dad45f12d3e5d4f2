// SPDX-License-Identifier: Apache-2.0
#include "exits/policy.hpp"
#include "fewer.hpp"

#include "catch.hpp"

#include <random>
#include <sstream>

using namespace nacre::exits;  // NOLINT
using nacre::value::Idset;

namespace {

// "s11:1 c:0,2-3": in this order.
Outcomes outcomes_of(const std::string& text) {
  Outcomes out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    auto colon = word.find(':');
    auto record = Record::parse(word.substr(0, colon));
    auto ranks = Idset::parse(word.substr(colon + 1));
    REQUIRE(record);
    REQUIRE(ranks);
    out.add(*ranks, *record);
  }
  return out;
}

std::vector<int> codes_of(const std::string& text, const std::string& ok = "", Idset::Id main = 0) {
  Outcomes outcomes = outcomes_of(text);
  std::vector<int> out;
  for (auto kind :
       {Policy::Kind::max, Policy::Kind::main, Policy::Kind::all, Policy::Kind::main_and_all, Policy::Kind::first})
    out.push_back(Policy(kind, main, *Idset::parse(ok)).code(outcomes));
  return out;
}

// ---- the oracle: one record a rank, in the order in which the ranks ended ----------------------------

struct End {
  char kind;  // x s f t l c g
  int value;
};

int oracle(const std::vector<End>& ends, const std::vector<std::size_t>& order, Policy::Kind kind, std::size_t main,
           int ok) {
  auto counts = [&](const End& end) {
    switch (end.kind) {
      case 'x': return end.value == ok ? 0 : end.value;
      case 's': return 128 + end.value;
      case 'f': return end.value;
      case 't': return 124;
      case 'l': return 1;
      default: return 0;
    }
  };
  int largest = 0, first = 0;
  bool all = true;
  for (std::size_t rank : order) {
    int code = counts(ends[rank]);
    largest = std::max(largest, code);
    if (first == 0) first = code;
    all = all && code == 0 && ends[rank].kind != 'c';
  }
  int mains = main >= ends.size() || ends[main].kind == 'c' ? 1 : counts(ends[main]);
  if (kind == Policy::Kind::max) return largest;
  if (kind == Policy::Kind::main) return mains;
  if (kind == Policy::Kind::all) return all ? 0 : 1;
  if (kind == Policy::Kind::first) return first;
  return ends.empty() ? 0 : mains != 0 ? mains : all ? 0 : 1;
}

std::string text_of(const End& end) {
  bool has_value = end.kind == 'x' || end.kind == 's' || end.kind == 'f';
  return std::string(1, end.kind) + (has_value ? std::to_string(end.value) : "");
}

}  // namespace

TEST_CASE("each policy's code of each kind of end") {
  using Codes = std::vector<int>;  // max, main, all, main+all, first
  CHECK(codes_of("x0:0-3") == Codes{0, 0, 0, 0, 0});
  CHECK(codes_of("s11:1 c:0,2-3") == Codes{139, 1, 1, 1, 139});
  CHECK(codes_of("s11+:1 c/s15:0,2-3", "", 1) == Codes{139, 139, 1, 139, 139});
  CHECK(codes_of("x3:5 x9:1 x0:0,2-4,6-7") == Codes{9, 0, 1, 1, 3});
  CHECK(codes_of("t/x0:0-3") == Codes{124, 124, 1, 124, 124});
  CHECK(codes_of("f127:0-3") == Codes{127, 127, 1, 127, 127});
  CHECK(codes_of("l:2-3 x0:0-1") == Codes{1, 0, 1, 1, 1});
  CHECK(codes_of("x77:2 x0:0-1,3", "77") == Codes{0, 0, 0, 0, 0});
  CHECK(codes_of("x77:2 x0:0-1,3", "77", 2) == Codes{0, 0, 0, 0, 0});
  CHECK(codes_of("x77:2 x78:0-1,3", "77") == Codes{78, 78, 1, 78, 78});
  CHECK(codes_of("") == Codes{0, 1, 0, 0, 0});
  // A task that leaves by a shrink has not failed, even if it is the main rank.
  CHECK(codes_of("g/s15:0-1 g/x3:2 x0:3") == Codes{0, 0, 0, 0, 0});
  CHECK(codes_of("g:0-2 x3:3", "", 3) == Codes{3, 3, 1, 3, 3});
  CHECK(codes_of("x3:3 g/s15:0-1 c/s15:2") == Codes{3, 0, 1, 1, 3});
  CHECK(codes_of("c:0-3") == Codes{0, 1, 1, 1, 0});
  CHECK(codes_of("x0:0-3", "", 4) == Codes{0, 1, 0, 1, 0});
}

TEST_CASE("an exit code that counts as success is no signal, and no limit") {
  CHECK(codes_of("s9:0", "137") == std::vector<int>{137, 137, 1, 137, 137});
  CHECK(codes_of("t:0", "124") == std::vector<int>{124, 124, 1, 124, 124});
  CHECK(codes_of("f127:0", "127") == std::vector<int>{127, 127, 1, 127, 127});
}

TEST_CASE("names of policies") {
  for (const char* name : {"max", "main", "all", "main+all", "first"}) {
    auto kind = Policy::kind_of(name);
    REQUIRE(kind);
    CHECK(Policy::name_of(*kind) == name);
  }
  auto none = Policy::kind_of("min");
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "expected max, main, all, main+all or first, got 'min'");
}

static void drive(int rounds, std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::string kinds = "xsftlcg";
  auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  for (int round = 0; round < rounds; ++round) {
    std::vector<End> ends(below(10));
    for (End& each : ends) {
      each.kind = below(2) == 0 ? 'x' : kinds[below(kinds.size())];
      each.value = each.kind == 's'   ? 1 + static_cast<int>(below(30))
                   : each.kind == 'f' ? 126 + static_cast<int>(below(2))
                                      : static_cast<int>(below(4)) * 25;
    }
    std::vector<std::size_t> order(ends.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    Outcomes outcomes;
    for (std::size_t rank : order) {
      auto id = static_cast<Idset::Id>(rank);
      outcomes.add(Idset::range(id, id), *Record::parse(text_of(ends[rank])));
    }
    for (auto kind : {Policy::Kind::max, Policy::Kind::main, Policy::Kind::all, Policy::Kind::main_and_all,
                      Policy::Kind::first}) {
      std::size_t main = below(11);
      int ok = below(2) == 0 ? 25 : -1;
      Policy policy(kind, static_cast<Idset::Id>(main), ok < 0 ? Idset() : Idset::range(25, 25));
      CAPTURE(round, Policy::name_of(kind), main, ok);
      REQUIRE(policy.code(outcomes) == oracle(ends, order, kind, main, ok));
    }
  }
}

TEST_CASE("random ends, through all policies") { drive(nacre::kit::fewer(20000), 20261123); }

// Runs in `make check-long`.
TEST_CASE("a million random ends, through all policies", "[.million]") { drive(1000000, 20261124); }

TEST_CASE("exit classes: codes, or the cause's, for some of the classes") {
  auto classes = ExitClasses::parse("host:75,user:cause,no-progress:93").value();
  CHECK(classes.code_of(FailureClass::host) == 75);
  CHECK(classes.code_of(FailureClass::user) == std::nullopt);
  CHECK(classes.code_of(FailureClass::no_progress) == 93);
  CHECK(ExitClasses::parse("user:1").value().code_of(FailureClass::host) == std::nullopt);
  for (const char* wrong : {"", "host", "host:", "host:0", "host:256", "host:x", "disk:3", "host:75,", "host=75"}) {
    INFO(wrong);
    auto parsed = ExitClasses::parse(wrong);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message.starts_with("expected host, user or no-progress, each with :CODE (1 to 255)"));
  }
  CHECK(ExitClasses::parse("host:1,host:2").error().message == "host is given twice");
}
