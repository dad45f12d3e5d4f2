// SPDX-License-Identifier: Apache-2.0
//
// The bytes of facts, verdicts and answers: other shells and programs read them.
#include "catch.hpp"

#include "base/json.hpp"
#include "doctor/answers.hpp"
#include "doctor/facts.hpp"
#include "doctor/findings.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::doctor;  // NOLINT
using value::Idset;

namespace {

Fact whole_fact() {
  Fact out;
  out.doing = Doing::stuck;
  out.program = "a.out";
  out.where = "pipe_read";
  out.call = "read";
  out.object = "pipe";
  out.writer = PipeEnd::nobody;
  out.reader = PipeEnd::others;
  out.is_input = out.moves = out.wakes = true;
  out.locked = 3;
  out.steps = Steps::some;
  out.holds_lock = true;
  out.pmi = "connected";
  out.barrier = 2;
  out.stack = {"main", "read"};
  out.others = {{"clone", "poll"}, {"x"}};
  return out;
}

TaskGroup whole_group() {
  TaskGroup out;
  out.ranks = Idset::range(1, 3);
  out.fact = whole_fact();
  out.cpu = {0, 0.5, 0.75, 3};
  out.ready = {0, 0.25, 0.5, 2};
  out.silent = {1, 4, 5, 2};
  out.bytes = {10, 30, 60, 3};
  out.path = "/tmp/x";
  return out;
}

}  // namespace

TEST_CASE("the texts of facts and groups of tasks") {
  CHECK(dump_json(Fact().json()) == R"({"doing":"sleeps","program":""})");
  CHECK(
      dump_json(whole_fact().json()) ==
      R"({"barrier":2,"call":"read","doing":"stuck","gil":true,"locked":3,"moves":true,"object":"pipe","other_stacks)"
      R"(":[["clone","poll"],["x"]],"pmi":"connected","program":"a.out","reader":"others","stack":["main")"
      R"(,"read"],"stdin":true,"steps":"some","wakes":true,"where":"pipe_read","writer":"nobody"})");
  CHECK(Fact::parse(whole_fact().json()).value() == whole_fact());
  CHECK(Fact::parse(Fact().json()).value() == Fact());
  CHECK(
      dump_json(whole_group().json()) ==
      R"({"barrier":2,"bytes":{"max":30.0,"mean":20.0,"min":10.0,"tasks":3},"call":"read","count":3,"cpu")"
      R"(:{"max":0.5,"mean":0.25,"min":0.0,"tasks":3},"doing":"stuck","gil":true,"locked":3,"moves":true,"object":"p)"
      R"(ipe","other_stacks":[["clone","poll"],["x"]],"path":"/tmp/x","pmi":"connected","program":"a.out")"
      R"(,"ranks":"1-3","reader":"others","ready":{"max":0.25,"mean":0.25,"min":0.0,"tasks":2},"silent":{)"
      R"("max":4.0,"mean":2.5,"min":1.0,"tasks":2},"stack":["main","read"],"stdin":true,"steps":"some","w)"
      R"(akes":true,"where":"pipe_read","writer":"nobody"})");
  CHECK(TaskGroup::parse(whole_group().json()).value().json() == whole_group().json());
  auto why = [](const Json& json) {
    auto read = Fact::parse(json);
    return read ? "fine" : read.error().message;
  };
  CHECK(why({{"doing", "asleep"}}) == "doing: no such name");
  CHECK(why(Json::object()) == "missing key 'doing'");
  CHECK(why({{"doing", "busy"}, {"stdin", 1}}) == "stdin: expected true or false, got 1");
  CHECK(why({{"doing", "busy"}, {"later", 1}}) == "fine");
}

TEST_CASE("the texts of an examination and of verdicts") {
  Examination examination;
  examination.tasks = 8;
  examination.interval = 0.5;
  examination.absent = {{2, "n2", Idset::range(4, 5), true}, {3, "n3", Idset::range(6, 6), false}};
  examination.ended_well = Idset::range(0, 1);
  examination.ended_badly = Idset::range(7, 7);
  examination.notes = {"no gdb"};
  CHECK(dump_json(examination.json()) ==
        R"({"absent":[{"host":"n2","lost":true,"ranks":"4-5","shell":2},{"host":"n3","lost":false,"ranks":")"
        R"(6","shell":3}],"ended-badly":"7","ended-well":"0-1","interval":0.5,"notes":["no gdb"],"tasks":8})");
  CHECK(Examination::parse(examination.json()).value().json() == examination.json());
  CHECK_FALSE(Examination::parse(Json::object()));
  Verdict verdict{Verdict::Kind::no_answer, Idset::range(4, 5), "shell 2", "it is lost"};
  CHECK(dump_json(verdict.json()) ==
        R"({"evidence":"it is lost","kind":"no-answer","ranks":"4-5","text":"shell 2"})");
  CHECK(Verdict::parse(verdict.json()).value().json() == verdict.json());
  Json wrong = verdict.json();
  wrong["kind"] = "bad";
  CHECK(Verdict::parse(wrong).error().message == "kind: no such kind of verdict");
}

TEST_CASE("the texts of a shell's answer") {
  AnswerPart part;
  part.number = 4;
  CHECK(part.text() == R"({"groups":[],"last":false,"number":4})");
  part.is_last = true;
  part.groups = {whole_group()};
  part.notes = {"b", "a"};
  part.silent = 1.5;
  CHECK(
      part.text() ==
      R"({"groups":[["{\"barrier\":2,\"call\":\"read\",\"doing\":\"stuck\",\"gil\":true,\"locked\":3,\"moves\":true,\")"
      R"(object\":\"pipe\",\"other_stacks\":[[\"clone\",\"poll\"],[\"x\"]],\"pmi\":\"connected\",\"progra)"
      R"(m\":\"a.out\",\"reader\":\"others\",\"stack\":[\"main\",\"read\"],\"stdin\":true,\"steps\":\"som)"
      R"(e\",\"wakes\":true,\"where\":\"pipe_read\",\"writer\":\"nobody\"}","1-3",[0.0,0.5,0.75,3,0.0,0.2)"
      R"(5,0.5,2,1.0,4.0,5.0,2,10.0,30.0,60.0,3],"/tmp/x"]],"last":true,"notes":["a","b"],"number":4,"sil)"
      R"(ent":1.5})");
  AnswerReader reader;
  CHECK(reader.read(part.text()).value().text() == part.text());
}
