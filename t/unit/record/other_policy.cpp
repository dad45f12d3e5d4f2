// SPDX-License-Identifier: Apache-2.0
#include "record/entry.hpp"

#include <array>
#include <vector>

#include "catch.hpp"

using namespace nacre::record;  // NOLINT
using nacre::Json;
using Kind = nacre::exits::Policy::Kind;

namespace {

constexpr std::array kAll{Kind::max, Kind::main, Kind::all, Kind::main_and_all, Kind::first};

EntryEnd ended(const std::vector<Json>& exits, const Json& rule, int code = 0) {
  EntryEnd out;
  out.code = code;
  out.exits = exits;
  out.rule = rule;
  return out;
}

std::array<int, 5> codes(const EntryEnd& end) {
  std::array<int, 5> out{};
  for (std::size_t i = 0; i < kAll.size(); ++i) out[i] = code_by(kAll[i], end).value();
  return out;
}

Json way(const char* record, const char* ranks) { return {{"record", record}, {"count", 1}, {"ranks", ranks}}; }

}  // namespace

TEST_CASE("the code by each policy, as the table of nacre-exits(7) has it") {
  CHECK(codes(ended({way("x0", "0-3")}, {{"main", 0}})) == std::array{0, 0, 0, 0, 0});
  CHECK(codes(ended({way("s11", "1"), way("c", "0,2-3")}, {{"main", 0}, {"first", "s11"}}, 139)) ==
        std::array{139, 1, 1, 1, 139});
  CHECK(codes(ended({way("x3", "5"), way("x9", "1"), way("x0", "0,2-4")}, {{"main", 0}, {"first", "x3"}}, 9)) ==
        std::array{9, 0, 1, 1, 3});
  CHECK(codes(ended({way("t", "0-3")}, {{"main", 0}, {"first", "t"}}, 124)) == std::array{124, 124, 1, 124, 124});
  CHECK(codes(ended({way("l", "2-3"), way("x0", "0-1")}, {{"main", 0}, {"first", "l"}}, 1)) ==
        std::array{1, 0, 1, 1, 1});
  CHECK(codes(ended({way("c/s15", "0-3")}, {{"main", 0}, {"fixed", true}}, 143)) ==
        std::array{143, 143, 143, 143, 143});
  CHECK(codes(ended({way("x77", "2"), way("x0", "0-1")}, {{"main", 2}, {"ok", "77"}})) ==
        std::array{0, 0, 0, 0, 0});
  CHECK(codes(ended({way("x0", "0")}, {{"main", 0}, {"least", 1}}, 1)) == std::array{1, 1, 1, 1, 1});
}

TEST_CASE("what the entry does not tell is an error") {
  auto why = [](Kind kind, const EntryEnd& end) { return code_by(kind, end).error().message; };
  EntryEnd many =
      ended({Json{{"record", "x0"}, {"count", 9}}, Json{{"record", "x4"}, {"count", 9}}}, {{"main", 0}}, 4);
  CHECK(code_by(Kind::max, many) == 4);
  CHECK(code_by(Kind::all, many) == 1);
  CHECK(why(Kind::main, many) == "which task has ended how was too long to be recorded");
  many.exits.push_back({{"record", "others"}, {"count", 9}});
  CHECK(why(Kind::max, many) == "the job's tasks have ended in more ways than were recorded");
  CHECK(why(Kind::max, ended({way("x0", "0")}, Json())) == "an older nacre has recorded its end");
  CHECK(why(Kind::max, ended({way("?", "0")}, {{"main", 0}})).starts_with("exits[0].record: "));
  CHECK(why(Kind::max, ended({way("x0", "0")}, Json::object())).find("main") != std::string::npos);
  EntryEnd gone = ended({}, {{"main", 0}});
  gone.vanished = true;
  CHECK(why(Kind::max, gone).starts_with("its leader has gone"));
}
