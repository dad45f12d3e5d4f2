// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

namespace {

struct Asked {
  std::uint64_t ask(std::set<std::uint32_t> shells) {
    return tables.ask(std::move(shells), [this](const ProcessTables::Rows& rows) {
      ++answers;
      ranks.clear();
      for (const auto& [rank, row] : rows) ranks.push_back(rank);
    });
  }
  ProcessTables tables;
  int answers = 0;
  std::vector<Rank> ranks;
};

}  // namespace

TEST_CASE("a row as text, and back") {
  ProcessRow row{3, 4711, 20, 143, "./a b"};
  CHECK(text_of(row) == "3 4711 20 143 ./a b");
  for (const ProcessRow& each : {row, ProcessRow(), ProcessRow{UINT32_MAX, -1, 255, -1, " \n"}}) {
    CHECK(row_in(text_of(each)) == each);
  }
  for (const char* text :
       {"", "3", "3 4 5", "3 4 5 6", "x 4 5 6 a", "3 4 256 6 a", "4294967296 4 5 6 a", "3  4 5 6 a"}) {
    INFO(text);
    CHECK_FALSE(row_in(text));
  }
  CHECK(row_in("3 4 5 6 ")->command.empty());
}

TEST_CASE("a table is there once all that were asked have answered, in the order of ranks") {
  Asked asked;
  std::uint64_t number = asked.ask({0, 2});
  asked.tables.answered(2, number, {"5 1 2 0 a", "4 1 2 0 a", "no row"});
  asked.tables.answered(2, number, {"6 1 2 0 a"});
  asked.tables.answered(1, number, {"7 1 2 0 a"});
  CHECK(asked.answers == 0);
  asked.tables.answered(0, number, {"1 1 2 0 a"});
  CHECK(asked.answers == 1);
  CHECK(asked.ranks == std::vector<Rank>{1, 4, 5});
  asked.tables.give_up(number);
  CHECK(asked.answers == 1);
}

TEST_CASE("one that is lost, or late, is left out; nobody waits for ever") {
  Asked asked;
  std::uint64_t first = asked.ask({0, 1});
  asked.tables.answered(0, first, {"1 1 2 0 a"});
  asked.tables.lost(1);
  CHECK(asked.answers == 1);
  CHECK(asked.ranks == std::vector<Rank>{1});
  asked.tables.give_up(asked.ask({0, 1}));
  CHECK(asked.answers == 2);
  CHECK(asked.ranks.empty());
  asked.ask({0});
  asked.ask({1});
  asked.tables.give_up_all();
  CHECK(asked.answers == 4);
}
