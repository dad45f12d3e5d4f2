// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a timeline's summary, and of the head of a shell's answer.
#include "catch.hpp"

#include "base/json.hpp"
#include "timeline/facts.hpp"
#include "timeline/summary.hpp"

using namespace nacre;            // NOLINT
using namespace nacre::timeline;  // NOLINT

TEST_CASE("the texts of a summary") {
  CHECK(dump_json(Summary().json()) ==
        R"({"dropped":0,"end":[],"launch":0.0,"launched":false,"run":[],"steps":[]})");
  CHECK(Summary::parse(Summary().json()).value() == Summary());
  Summary full;
  full.launch = 1'500'000'000;
  full.launch_steps = {{"init barrier", 1'000'000, Last{2, "n2", {}, "its prolog took", 500'000, false}},
                       {"tasks", 2'000'000, Last{3, "n3", 7, "", 0, false}},
                       {"R", 0, Last{4, "n4", {}, "", 250'000, true}}};
  full.has_launched = true;
  full.run_steps = {{"first end", -1'000, {}}};
  full.end_steps = {{"exit", 3'000'000, {}}};
  full.clocks = {2'000, "n5"};
  full.lost = {{"n6", "n7"}, 3};
  full.late = {{"n8"}, 0};
  full.dropped = 9;
  CHECK(dump_json(full.json()) ==
        R"({"clocks":{"uncertainty":2e-06,"worst":"n5"},"dropped":9,"end":[{"name":"exit","time":0.003}],"l)"
        R"(ate":{"others":0,"places":["n8"]},"launch":1.5,"launched":true,"lost":{"others":3,"places":["n6")"
        R"(,"n7"]},"run":[{"name":"first end","time":-1e-06}],"steps":[{"last":{"place":"n2","shell":2,"too)"
        R"(k":0.0005,"why":"its prolog took"},"name":"init barrier","time":0.001},{"last":{"place":"n3","ra)"
        R"(nk":7,"shell":3},"name":"tasks","time":0.002},{"last":{"place":"n4","shell":4,"slowest":true,"to)"
        R"(ok":0.00025},"name":"R","time":0.0}]})");
  CHECK(Summary::parse(full.json()).value() == full);
  full.clocks.most = Clock::kUnknown;
  CHECK(full.json().at("clocks").dump() == R"({"uncertainty":null,"worst":"n5"})");
  CHECK(Summary::parse(full.json()).value() == full);
  Json wrong = full.json();
  wrong["steps"][1]["time"] = 1e10;
  CHECK(Summary::parse(wrong).error().message == "steps[1].time: expected a time in seconds, got 10000000000.0");
}

TEST_CASE("the head of a batch") {
  auto head = [](const TimelineBatch& batch) {
    std::string text = batch.text();
    return text.substr(0, text.find('\n'));
  };
  TimelineBatch batch;
  CHECK(head(batch) == R"({"dropped":0,"last":false,"number":0,"received":0,"sent":0})");
  batch.number = 3;
  batch.received = 5;
  batch.sent = 6;
  batch.is_last = true;
  batch.clock = "boot";
  batch.dropped = 2;
  batch.names = {"a", "b"};
  CHECK(head(batch) ==
        R"({"clock":"boot","dropped":2,"last":true,"names":["a","b"],"number":3,"received":5,"sent":6})");
  CHECK(TimelineBatch::parse(batch.text()).value() == batch);
}
