// SPDX-License-Identifier: Apache-2.0
#include "timeline/summary.hpp"

#include "catch.hpp"

#include "base/json.hpp"
#include "sample_job.hpp"

using namespace nacre;            // NOLINT
using namespace nacre::timeline;  // NOLINT

namespace {

Summary summed(const JobTimeline& job) { return summary_of(job, facts_of(job)); }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE("the launch has the steps of all shells, and who came last, and why") {
  CHECK(text_of(summed(sample_job()), "") ==
        "launch 200 ms: ssh 160 (slowest n2 156), join 12, init barrier 8 (last: n2, its shell.init took 6), "
        "prolog 7 (slowest n3 7), spawn 10, start barrier 3 (last: n3, its spawn of 2 tasks took 10)\n"
        "tasks, ms after it: first end 100 (rank 0 on n0), last end 200 (last: rank 5 on n2)\n"
        "end 5 ms: exit barrier 5 (last: rank 5 on n2)\n"
        "clocks: known to ±0.5 ms (worst n1)\n");
}

TEST_CASE("where the shells wait for each other's prologs, the slow one is why its shell comes last there") {
  JobTimeline job = sample_job();
  for (std::uint32_t shell = 0; shell < 4; ++shell) {
    bool is_slow = shell == 3;
    ShellBy by;
    by.at(100, Kind::booted).at(102, Kind::joining).at(172, Kind::joined).barrier("init", 174, 180);
    by.hold("hooks", 180, is_slow ? 480 : 190).barrier("ready", is_slow ? 481 : 191, 485);
    by.phase(kSpawnPhase, 486, 490).barrier("start", 491, 500);
    job.shells[shell] = by.timeline(shell);
    job.shells[shell].clock.set_same();
  }
  CHECK(text_of(summed(job), "")
            .find("prolog 301 (slowest n3 300), ready barrier 4 (last: n3, its prolog took 300), "
                  "spawn 5, start barrier 10 (last:") != std::string::npos);
}

TEST_CASE("a slow prolog is why its shell comes last at the start barrier") {
  JobTimeline job = sample_job();
  ShellBy slow;
  slow.at(100, Kind::booted).at(102, Kind::joining).at(172, Kind::joined).barrier("init", 174, 180);
  slow.hold("hooks", 180, 480).phase(kSpawnPhase, 480, 490).barrier("start", 491, 500);
  job.shells[3] = slow.timeline(3);
  job.shells[3].clock.set_same();
  job.shells[0] = ShellBy()
                      .at(0, Kind::booted)
                      .at(172, Kind::joined)
                      .barrier("init", 174, 180)
                      .phase(kSpawnPhase, 181, 191)
                      .barrier("start", 192, 495)
                      .timeline(0);
  CHECK(text_of(summed(job), "").find("start barrier 5 (last: n3, its prolog took 300)") != std::string::npos);
}

TEST_CASE("a job of one shell has no others that could be last") {
  JobTimeline job = sample_job();
  job.shells.resize(1);
  job.tasks = 2;
  CHECK(first_line(text_of(summed(job), "nacre: ")) ==
        "nacre: launch 200 ms: boot 172, init barrier 8, spawn 11, start barrier 9");
}

TEST_CASE("a launch that is not over has the steps so far") {
  JobTimeline job = sample_job();
  job.is_over = false;
  for (ShellTimeline& each : job.shells)
    std::erase_if(each.events, [&](const TimelineEvent& event) {
      return event.kind >= Kind::spawn || each.name_of(event) == "start" || each.name_of(event) == "exit";
    });
  Summary summary = summed(job);
  CHECK_FALSE(summary.has_launched);
  CHECK(first_line(text_of(summary, "")).starts_with("launch 197 ms, not complete: ssh 160"));
}

TEST_CASE("shells of which something is missing are named, and so are events that were dropped") {
  JobTimeline job = sample_job();
  job.shells[1].presence = Presence::lost;
  job.shells[3].presence = Presence::late;
  job.shells[2].dropped = 7;
  std::string text = text_of(summed(job), "");
  CHECK(text.find("missing: n1, which the job has lost") != std::string::npos);
  CHECK(text.find("missing: n3, which has not answered in time") != std::string::npos);
  CHECK(text.find("dropped: the newest 7 events") != std::string::npos);
}

TEST_CASE("many missing shells are counted") {
  Summary::Missing missing;
  for (int i = 0; i < 1000; ++i) missing.add("n" + std::to_string(i));
  CHECK(missing.places.size() == Summary::Missing::kMostPlaces);
  Summary summary;
  summary.lost = missing;
  CHECK(text_of(summary, "").find("n7 and 992 others") != std::string::npos);
}

TEST_CASE("a clock of which nothing is known is said to be so") {
  JobTimeline job = sample_job();
  job.shells[1].clock = Clock();
  CHECK(text_of(summed(job), "").find("nothing is known of that of n1") != std::string::npos);
}

TEST_CASE("a summary is read as it was written") {
  JobTimeline job = sample_job();
  job.shells[1].presence = Presence::lost;
  for (Clock clock : {job.shells[1].clock, Clock()}) {
    job.shells[1].clock = clock;
    Summary summary = summed(job);
    auto parsed = Summary::parse(summary.json());
    REQUIRE(parsed);
    CHECK(text_of(*parsed, "") == text_of(summary, ""));
  }
  CHECK_FALSE(Summary::parse(Json::object()));
}
