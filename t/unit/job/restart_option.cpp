// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using job::RestartOption;

namespace {

Result<RestartOption> read(Json value) {
  return RestartOption::read(job::Options(Json{{"restart", std::move(value)}}));
}
std::string why(Json value) { return read(std::move(value)).error().message; }

}  // namespace

TEST_CASE("restart: without it nothing starts again; a word alone has the defaults") {
  CHECK_FALSE(RestartOption::read(job::Options())->is_on());
  CHECK_FALSE(read("never")->is_on());
  auto out = read("on-failure").value();
  CHECK(out.when == RestartOption::When::on_failure);
  CHECK(out.max == 3);
  CHECK_FALSE(out.per_task);
  CHECK(out.first.seconds() == 1);
  CHECK(out.longest.seconds() == 60);
  CHECK(out.codes.empty());
  CHECK(out.scope == RestartOption::Scope::task);
  CHECK(read("always")->when == RestartOption::When::always);
  out = read("on-request,scope=job").value();
  CHECK(out.when == RestartOption::When::on_request);
  CHECK(out.scope == RestartOption::Scope::job);
  CHECK(out.is_on());
  CHECK(read("always,scope=node")->scope == RestartOption::Scope::node);
  CHECK(read("always,scope=task")->scope == RestartOption::Scope::task);
  CHECK(out.where == RestartOption::Where::same);
  CHECK(read("on-request,scope=job,where=any")->where == RestartOption::Where::any);
  CHECK(read("always,where=spare")->where == RestartOption::Where::spare);
  CHECK(read("always,where=same")->where == RestartOption::Where::same);
}

TEST_CASE("restart: members in any order, and codes with commas") {
  auto out = read("on-failure,codes=3,64-66,139,max=7,backoff=100ms:2m,scope=job,per-task=2").value();
  CHECK(out.codes.str() == "3,64-66,139");
  CHECK(out.max == 7);
  CHECK(out.per_task == 2);
  CHECK(out.first.seconds() == 0.1);
  CHECK(out.longest.seconds() == 120);
  CHECK(out.scope == RestartOption::Scope::job);
  CHECK(read("on-failure,max=1,codes=7,9")->codes.str() == "7,9");
  CHECK(read("on-failure,per-task=2")->max == RestartOption::kMost);
  CHECK(read("on-failure")->max == 3);
  CHECK(read("always,backoff=5m")->longest.seconds() == 300);  // a first time beyond the usual longest
  CHECK(read("always,backoff=0")->longest.seconds() == 60);
}

TEST_CASE("restart: without progress") {
  using Look = RestartOption::NoProgress::Look;
  auto out = read("on-failure,no-progress=3").value();
  REQUIRE(out.no_progress);
  CHECK(out.no_progress->restarts == 3);
  CHECK(out.no_progress->look == Look::output);
  CHECK(out.no_progress->what == "step");
  CHECK(out.max == RestartOption::kMost);  // the limit is used instead
  CHECK(read("on-failure,no-progress=3:output")->no_progress == out.no_progress);
  CHECK(read("on-failure,no-progress=3:output:epoch")->no_progress->what == "epoch");
  out = read("always,max=9,no-progress=8:ckpt/latest:1,scope=job").value();
  CHECK(out.no_progress->look == Look::file);
  CHECK(out.no_progress->what == "ckpt/latest:1");
  CHECK(out.max == 9);
  CHECK(read("always,no-progress=1:./output")->no_progress->what == "./output");
  CHECK(read("always,no-progress=1:outputs")->no_progress->look == Look::file);
  out = read("always,no-progress=1:!wc -l <log:1,max=2").value();
  CHECK(out.no_progress->look == Look::command);
  CHECK(out.no_progress->what == "wc -l <log:1");
  CHECK_FALSE(read("always,max=2")->no_progress);
  for (const char* value : {"", "0", "x", "1000001", "3:", "3:!", "3:! ", "3:output:", ":file", "-1:file"}) {
    CAPTURE(value);
    CHECK(why(std::string("always,no-progress=") + value) ==
          "restart: no-progress: expected a number of restarts, 1 to 1000000, and perhaps what is to change "
          "meanwhile, as 3:checkpoints/latest, 3:output:step or 3:!COMMAND, got '" +
              std::string(value) + "'");
  }
  for (const char* members : {"no-progress=3,max=3", "max=2,no-progress=3:file"})
    CHECK(why(std::string("always,") + members)
              .starts_with("restart: no-progress: 3 restarts are not fewer than max ("));
  CHECK(why("always,no-progress=3,max=3")
            .ends_with("max (3), which ends the job before: give a larger max, or none"));
}

TEST_CASE("restart: what it cannot be is named, with what it can be") {
  constexpr const char* kWords =
      "restart: expected never, on-request, on-failure or always, and perhaps more, as "
      "on-failure,max=5,backoff=1s:60s, got ";
  CHECK(why("often") == kWords + std::string("\"often\""));
  CHECK(why(true) == kWords + std::string("true"));
  CHECK(why("on-failure,max=0") ==
        "restart: max: expected a number of restarts, 1 to 1000000 (restart=never is none), got '0'");
  CHECK(why("on-failure,per-task=x").starts_with("restart: per-task: expected a number of restarts"));
  CHECK(why("on-failure,backoff=3s:2s") ==
        "restart: backoff: expected a time, or two as 1s:60s, the first and the longest, got '3s:2s'");
  for (const char* time : {"", "x", "1s:", ":1s", "infinity", "1s:infinity", "1:2:3"})
    CHECK(why(std::string("always,backoff=") + time).starts_with("restart: backoff: expected a time"));
  for (const char* member : {"max=3", "per-task=1", "backoff=0", "codes=3", "no-progress=3", "scope=job,max=1"})
    CHECK(
        why(std::string("on-request,") + member) ==
        "restart: on-request has no limits, as only nacre restart starts tasks again: it has scope and where only");
  for (const char* codes : {"0", "256", "", "x"})
    CHECK(why(std::string("on-failure,codes=") + codes).starts_with("restart: codes: expected exit codes"));
  CHECK(why("on-failure,scope=shell") == "restart: scope: expected task, node or job, got 'shell'");
  CHECK(why("on-failure,where=here") == "restart: where: expected same, spare or any, got 'here'");
  CHECK(why("on-request,where=spare") ==
        "restart: on-request starts tasks where they were: where=spare is for on-failure and always");
  CHECK(why("on-failure,backof=1") ==
        "restart: there is no 'backof'; did you mean backoff?; restart has max, per-task, backoff, codes, "
        "no-progress, scope, where");
  CHECK(why("on-failure,3") == "restart: expected NAME=VALUE behind a comma, got '3'");
  CHECK(why("on-failure,") == "restart: expected NAME=VALUE behind a comma, got ''");
  CHECK(why("never,max=3") == "restart: never has no members: leave them out");
  CHECK(why("always,codes=3") ==
        "restart: codes chooses among failures, and always means each end: use on-failure with codes");
}
