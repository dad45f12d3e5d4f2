// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "catch.hpp"

#include "elastic/roster.hpp"

using namespace nacre;  // NOLINT
using elastic::Growth;
using elastic::Roster;
using elastic::Shrinks;
using value::Idset;
using value::Shrunk;

namespace {

value::Idset ids(const char* text) { return value::Idset::parse(text).value(); }

}  // namespace

TEST_CASE("a shell stays until it is lost or asked to leave, and is about to leave until it has gone") {
  Roster roster;
  CHECK(roster.stays(1));
  roster.note_leaving(ids("1-2"));
  CHECK_FALSE(roster.stays(1));
  CHECK(roster.leaves(1));
  CHECK(roster.gone().empty());
  roster.note_left(ids("1"));
  CHECK_FALSE(roster.leaves(1));
  CHECK(roster.is_to_leave(1));
  CHECK(roster.leaves(2));
  CHECK(roster.left().str() == "1");
  roster.note_lost(ids("3"));
  CHECK_FALSE(roster.stays(3));
  CHECK_FALSE(roster.is_to_leave(3));
  CHECK(roster.lost().str() == "3");
  CHECK(roster.gone().str() == "1,3");
  CHECK(roster.stays(0));
}

TEST_CASE(
    "shells that join stay once they are ready; those that have not come, or have gone by then, do not join") {
  Roster roster;
  roster.note_lost(ids("5"));
  CHECK(roster.note_joining(ids("4-6"), ids("7")).str() == "4,6");
  CHECK(roster.gone().str() == "5,7");
  CHECK_FALSE(roster.stays(4));
  roster.note_ready(4);
  CHECK(roster.stays(4));
  CHECK_FALSE(roster.stays(6));
  CHECK_FALSE(roster.stays(7));
}

TEST_CASE("a newcomer adds what the others have to what it has") {
  Roster others;
  others.note_lost(ids("2"));
  others.note_leaving(ids("1,3"));
  others.note_left(ids("3"));
  static_cast<void>(others.note_joining(ids("4-5"), {}));
  Json json = others.json();
  CHECK(json.dump() == R"({"joining":"4-5","leaving":"1,3","left":"3","lost":"2"})");
  Roster own;
  own.note_lost(ids("6"));
  REQUIRE(own.add(JsonAt::root(json)));
  CHECK(own.lost().str() == "2,6");
  CHECK(own.gone().str() == "2-3,6");
  CHECK(own.leaves(1));
  CHECK_FALSE(own.stays(4));
  CHECK(own.stays(0));
}

TEST_CASE("what is no roster is refused, with its place") {
  Roster roster;
  Json json = roster.json();
  json["left"] = "2-1";
  Result<void> added = roster.add(JsonAt::root(json));
  REQUIRE_FALSE(added);
  CHECK(added.error().message.find("left") != std::string::npos);
  json.erase("left");
  CHECK_FALSE(roster.add(JsonAt::root(json)));
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

namespace {

// Two tasks on each of two shells, and a spare.
job::Job fresh() {
  job::Job job;
  for (std::uint32_t shell = 0; shell < 3; ++shell)
    job.resources.nodes.push_back({shell, "n", value::Idset::range(0, 1), {}, {}});
  job.taskmap = value::Taskmap::block({2, 2, 0});
  job.spares = 1;
  return job;
}

}  // namespace

TEST_CASE("what a job has come to is the same for a shell that joins") {
  job::Job job = fresh();
  job.start_again(value::Idset::range(0, 0));
  job.move({value::Idset::range(2, 3), 1, 2, 2});
  Json state = elastic::job_state(job);
  CHECK(state.dump() == R"({"moves":[["2-3",1,2,2]],"restarts":2,"starts":[[0,2]]})");
  job::Job newcomers = fresh();
  REQUIRE(elastic::take_job_state(JsonAt::root(state), newcomers));
  CHECK(newcomers.taskmap.raw() == "0-1;;2-3");
  CHECK(newcomers.restarts == 2);
  CHECK(newcomers.attempt_of(0) == 2);
  CHECK(newcomers.attempt_of(3) == 2);
  CHECK(newcomers.tasks_have_left(1));
  CHECK(elastic::job_state(newcomers) == state);
  job.unfit.insert(1);
  REQUIRE(elastic::take_job_state(JsonAt::root(elastic::job_state(job)), newcomers));
  CHECK(newcomers.unfit.str() == "1");
}

TEST_CASE("a shell that joins knows the sizes that the job has had, and what has moved between them") {
  auto begin = [] {
    job::Job job = fresh();
    job.tasks_each = 2;
    job.task_limit = 6;
    return job;
  };
  job::Job job = begin();
  job.move({value::Idset::range(2, 3), 1, 2, 2});
  job.resize(value::Idset::parse("0,2").value());
  job.move({value::Idset::range(2, 3), 2, 1, 4});
  job.resize(value::Idset::range(1, 1));
  Json state = elastic::job_state(job);
  job::Job newcomers = begin();
  REQUIRE(elastic::take_job_state(JsonAt::root(state), newcomers));
  CHECK(newcomers.taskmap.raw() == job.taskmap.raw());
  CHECK(newcomers.attempt_of(0) == job.attempt_of(0));
  CHECK(newcomers.restarts == 4);
  for (std::uint32_t shell = 0; shell < 3; ++shell) {
    for (value::Idset::Id rank = 0; rank < 4; ++rank)
      CHECK(newcomers.has_had(shell, rank) == job.has_had(shell, rank));
  }
  CHECK(elastic::job_state(newcomers) == state);
  job::Job fixed = fresh();
  CHECK_FALSE(elastic::take_job_state(JsonAt::root(state), fixed));
}

TEST_CASE("what is no state of a job is refused, with its place") {
  struct Row {
    const char* text;
    const char* words;
  };
  for (const Row& row :
       {Row{R"({"moves": [], "starts": []})", "restarts"},
        Row{R"({"moves": [["0", 1, 2]], "starts": [], "restarts": 0})", "moves[0]: expected a move"},
        Row{R"({"moves": [["0", 1, 2, 0]], "starts": [], "restarts": 0})", "moves[0][3]"},
        Row{R"({"moves": [], "starts": [[1]], "restarts": 0})", "starts[0]: expected [RANK, START]"},
        Row{R"({"moves": [], "starts": [[1, 0]], "restarts": 0})", "starts[0][1]"}}) {
    CAPTURE(row.text);
    Json json = Json::parse(row.text);
    job::Job job = fresh();
    auto taken = elastic::take_job_state(JsonAt::root(json), job);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().message.find(row.words) != std::string::npos);
  }
}
