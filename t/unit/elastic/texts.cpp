// SPDX-License-Identifier: Apache-2.0
//
// The bytes of what shells tell each other of restarts, moves and growth: other shells, of the same protocol, read
// them.
#include "catch.hpp"

#include "elastic/progress.hpp"
#include "elastic/recovery.hpp"
#include "elastic/roster.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::elastic;  // NOLINT
using exits::Record;
using value::Idset;
using value::WaitStatus;

TEST_CASE("the texts of restart messages") {
  RestartMessage alone{1, false, false, {{4, 2, Record::of(WaitStatus::exited(3)), 0.5}}, 0, "", {}, ""};
  CHECK(alone.asked() == R"({"ends":[[4,2,"x3",0.5]],"shell":1,"whole":false})");
  CHECK(alone.answered() == R"({"ends":[[4,2,"x3",0.5]],"shell":1,"whole":false,"why":""})");
  RestartMessage together = alone;
  together.whole = together.ordered = true;
  together.ends.push_back({5, 1, Record::victim(WaitStatus::killed(9)), 12});
  together.origin = exits::Origin::peer;
  together.doubt = "it may have been \"another\"";
  CHECK(together.asked() ==
        R"({"doubt":"it may have been \"another\"","ends":[[4,2,"x3",0.5],[5,1,"c/s9",12.0]],"ordered":true)"
        R"(,"origin":"peer","shell":1,"whole":true})");
  together.why_not = "no";
  CHECK(together.answered() ==
        R"({"doubt":"it may have been \"another\"","ends":[[4,2,"x3",0.5],[5,1,"c/s9",12.0]],"ordered":true)"
        R"(,"origin":"peer","shell":1,"whole":true,"why":"no"})");
  CHECK(RestartMessage::parse(together.answered(), 2)->answered() == together.answered());
  alone.seen = {"40"};
  alone.at = 7.5;
  CHECK(alone.asked() == R"({"at":7.5,"ends":[[4,2,"x3",0.5]],"seen":["40"],"shell":1,"whole":false})");
  CHECK(RestartMessage::parse(alone.asked(), 2)->asked() == alone.asked());
  RestartMessage all{0, true, true, {}, 7, "", {}, ""};
  CHECK(all.asked() == R"({"ends":[],"ordered":true,"shell":0,"whole":true})");
  CHECK(all.answered() == R"({"ends":[],"ordered":true,"restarts":7,"shell":0,"whole":true})");
  CHECK(RestartMessage::parse(all.answered(), 1)->restarts == 7);
}

TEST_CASE("the text of what shells have seen before all tasks start again") {
  CHECK(ProgressPart{"40"}.text() == R"({"seen":"40"})");
  ProgressPart leaders{"a", 7.5, true, IdleRestarts{"a", 5, 2, Idset::range(0, 1), Record::lost()}};
  CHECK(
      leaders.text() ==
      R"({"at":7.5,"before":{"record":"l","restarts":2,"seen":"a","shells":"0-1","since":5.0},"leads":true,"seen":"a"})");
  CHECK(ProgressPart::parse(leaders.text())->text() == leaders.text());
  CHECK_FALSE(ProgressPart::parse(""));
}

TEST_CASE("what is no restart message is refused, with its place") {
  auto why = [](const char* text) {
    auto read = RestartMessage::parse(text, 2);
    return read ? "fine" : read.error().message;
  };
  CHECK(why(R"({"shell":1,"whole":false,"ends":[[0,1,"x1",0]],"more":1})") == "fine");
  CHECK(why(R"({"shell":2,"whole":false,"ends":[]})") == "shell: expected an integer from 0 to 1, got 2");
  CHECK(why(R"({"whole":false,"ends":[]})") == "missing key 'shell'");
  CHECK(why(R"({"shell":0,"whole":1,"ends":[]})") == "whole: expected true or false, got 1");
  CHECK(why(R"({"shell":0,"whole":false,"ends":[[0,1,"x1"]]})") == "ends[0]: expected four elements, got an array");
  CHECK(why(R"({"shell":0,"whole":false,"ends":[[0,0,"x1",0]]})") ==
        "ends[0][1]: expected an integer from 1 to 4294967294, got 0");
  CHECK(why(R"({"shell":0,"whole":false,"ends":[[0,1,"l",0]]})") ==
        "ends[0]: expected a task that has ended, got an array");
  CHECK(why(R"({"shell":0,"whole":true,"ends":[]})") == "expected an end of a task, got an object");
  CHECK(why(R"({"shell":0,"whole":true,"ordered":true,"ends":[]})") == "fine");
}

TEST_CASE("the texts of requests for a spare, and of tasks that start elsewhere") {
  SpareRequest spare{3, true, {{0, 1}, {7, 2}}};
  CHECK(spare.text() == R"({"shell":3,"starts":[[0,1],[7,2]],"together":true})");
  CHECK(SpareRequest::parse(spare.text(), 4, 8)->starts == spare.starts);
  auto why = [](const char* text) {
    auto read = SpareRequest::parse(text, 4, 8);
    return read ? "fine" : read.error().message;
  };
  CHECK(why(R"({"shell":3,"together":true,"starts":[[8,1]]})") ==
        "starts[0][0]: expected an integer from 0 to 7, got 8");
  CHECK(why(R"({"shell":3,"together":true,"starts":[[1]]})") == "starts[0]: expected [RANK, START], got an array");
  CHECK(why(R"({"shell":3,"together":true,"starts":[]})") == "expected at least one start, got an object");

  Replacement moved{{{Idset::range(2, 3), 1, 2, 2}, {Idset::range(4, 4), 1, 3, 1}}};
  CHECK(moved.text() == R"({"from":1,"moves":[{"ranks":"2-3","to":2,"try":2},{"ranks":"4","to":3,"try":1}]})");
  moved.all = Replacement::All{3, 1.25, {}};
  CHECK(moved.text() ==
        R"({"all":{"ran":1.25,"restarts":3},"from":1,"moves":[{"ranks":"2-3","to":2,"try":2},{"ranks":"4",")"
        R"(to":3,"try":1}]})");
  moved.all->delay = 2;
  CHECK(moved.text() ==
        R"({"all":{"delay":2.0,"ran":1.25,"restarts":3},"from":1,"moves":[{"ranks":"2-3","to":2,"try":2},{")"
        R"(ranks":"4","to":3,"try":1}]})");
  CHECK(Replacement::parse(moved.text(), 4, 8)->text() == moved.text());
  auto refused = [](const char* text) {
    auto read = Replacement::parse(text, 4, 8);
    return read ? "fine" : read.error().message;
  };
  CHECK(refused(R"({"from":1,"moves":[]})") == "expected at least one move, got an object");
  CHECK(refused(R"({"from":4,"moves":[]})") == "from: expected an integer from 0 to 3, got 4");
  CHECK(refused(R"({"from":1,"moves":[{"to":2,"ranks":"8","try":1}]})") ==
        "moves[0]: expected ranks of the job, got an object");
  CHECK(refused(R"({"from":1,"moves":[{"to":4,"ranks":"7","try":1}]})") ==
        "moves[0].to: expected an integer from 0 to 3, got 4");
  CHECK(refused(R"({"from":1,"moves":[{"to":2,"ranks":"7"}]})") == "moves[0]: missing key 'try'");
}

TEST_CASE("the texts of what a shell that joins is given") {
  Restarts restarts({});
  REQUIRE(restarts.take(3, 1));
  REQUIRE(restarts.take_job(1, std::nullopt));
  CHECK(restarts.json().dump() == R"({"jobs_in_a_row":1,"tasks":[[3,1,1]],"used":2})");
  Restarts same({});
  Json json = restarts.json();
  REQUIRE(same.take(JsonAt::root(json)));
  CHECK(same.json() == json);
  Roster roster;
  roster.note_lost(Idset::range(1, 2));
  roster.note_leaving(Idset::range(3, 3));
  roster.note_left(Idset::range(4, 5));
  roster.note_joining(Idset::range(6, 7), Idset::range(8, 8));
  CHECK(roster.json().dump() == R"({"joining":"6-7","leaving":"3","left":"4-5","lost":"1-2,8"})");
  Growth growth{{{5, "n5", Idset::range(0, 3), Idset::range(0, 0), true, 2}, {6, "n6", {}, {}, false}}};
  CHECK(growth.json().dump() == R"([[5,"n5","0-3","0",true,2],[6,"n6","","",false,null]])");
  Json told = growth.json();
  Growth read = Growth::parse(JsonAt::root(told)).value();
  CHECK(read.json() == told);
  CHECK(read.has(6));
  CHECK_FALSE(read.has(7));
}
