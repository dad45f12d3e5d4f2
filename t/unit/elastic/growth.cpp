// SPDX-License-Identifier: Apache-2.0
#include "elastic/roster.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using elastic::Growth;

TEST_CASE("a growth reads back to the same") {
  Growth growth;
  growth.shells.push_back({4, "n4", value::Idset::range(0, 3), value::Idset::range(1, 1), true, 0});
  growth.shells.push_back({5, "n5", {}, {}, false});
  Json json = growth.json();
  CHECK(json.dump() == R"([[4,"n4","0-3","1",true,0],[5,"n5","","",false,null]])");
  Growth read = Growth::parse(JsonAt::root(json)).value();
  REQUIRE(read.shells.size() == 2);
  CHECK(read.json() == json);
  CHECK(read.has(5));
  CHECK_FALSE(read.has(6));
}

TEST_CASE("what is no growth is refused, with its place") {
  struct Row {
    const char* text;
    const char* words;
  };
  for (const Row& row :
       {Row{"{}", "expected"}, Row{"[4]", "[0]: expected"}, Row{R"([[4,"n","0"]])", "expected [RANK"},
        Row{R"([[0,"n","0","",true,null]])", "[0][0]"}, Row{R"([[4,"n","x","",true,null]])", "[0][2]"},
        Row{R"([[4,"n","0","",1,null]])", "[0][4]"},
        Row{R"([[4,"n","0","",true,null],[6,"n","0","",true,null]])", "expected shell 5"}}) {
    CAPTURE(row.text);
    Json json = Json::parse(row.text);
    auto read = Growth::parse(JsonAt::root(json));
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find(row.words) != std::string::npos);
  }
}
