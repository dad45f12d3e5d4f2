// SPDX-License-Identifier: Apache-2.0
#include "timeline/trace.hpp"

#include "catch.hpp"

#include "sample_job.hpp"

using namespace nacre;            // NOLINT
using namespace nacre::timeline;  // NOLINT

namespace {

Trace traced(const JobTimeline& job, std::size_t most = kMostTraceEvents) {
  return trace_of(job, facts_of(job), most);
}

std::vector<Json> events_of(const Trace& trace) {
  std::vector<Json> out;
  for (const std::string& each : trace.events) out.push_back(parse_json(each).value());
  return out;
}

std::vector<Json> named(const Trace& trace, const std::string& phase, const std::string& name) {
  std::vector<Json> out;
  for (const Json& each : events_of(trace)) {
    if (each.at("ph") == phase && each.at("name") == name) out.push_back(each);
  }
  return out;
}

std::size_t ranks_in(const Trace& trace) {
  std::set<std::uint64_t> tids;
  for (const Json& each : named(trace, "X", "run")) tids.insert(each.at("tid").get<std::uint64_t>());
  return tids.size();
}

}  // namespace

TEST_CASE("a trace has a process a shell, and a thread a rank") {
  Trace trace = traced(sample_job());
  CHECK(named(trace, "M", "process_name").size() == 4);
  CHECK(named(trace, "M", "process_name")[2]["args"]["name"] == "n2 (shell 2)");
  CHECK(named(trace, "M", "thread_name").size() == 4 + 8);
  CHECK(ranks_in(trace) == 8);
  auto run = named(trace, "X", "run");
  auto last = std::find_if(run.begin(), run.end(), [](const Json& each) { return each.at("tid") == 6; });
  REQUIRE(last != run.end());
  CHECK((*last)["pid"] == 3);
  CHECK((*last)["ts"] == 186'000.0);
  CHECK((*last)["dur"] == 214'000.0);
}

TEST_CASE("times are by the leader's clock, from the first event on") {
  Trace trace = traced(sample_job());
  for (const Json& each : named(trace, "X", "init barrier")) {
    double wanted = each.at("pid") == 3 ? 178'000 : 174'000;
    CHECK(std::abs(each.at("ts").get<double>() - wanted) <= 500);
  }
  CHECK(trace.about["clocks"][0]["uncertainty_us"].get<double>() >= 400);
  CHECK(trace.about["clocks"][1]["same"] == true);
  CHECK(trace.about["start"].get<double>() == Catch::Approx(1'700'000'000 - 0.41));
}

TEST_CASE("arrows go from the last at a barrier to the others, in pairs, forward in time") {
  Trace trace = traced(sample_job());
  std::map<std::uint64_t, std::vector<Json>> arrows;
  for (const Json& each : events_of(trace)) {
    if (each.at("ph") == "s" || each.at("ph") == "f") arrows[each.at("id").get<std::uint64_t>()].push_back(each);
  }
  CHECK(arrows.size() == 9);  // three barriers, three others
  for (const auto& [id, both] : arrows) {
    REQUIRE(both.size() == 2);
    CHECK(both[0].at("ph") == "s");
    CHECK(both[1].at("ph") == "f");
    CHECK(both[0].at("ts").get<double>() <= both[1].at("ts").get<double>());
    CHECK(both[0].at("pid") == (both[0].at("name") == "start barrier" ? 4 : 3));
  }
}

TEST_CASE("an arrow that would go back in time is left out and counted") {
  JobTimeline job = sample_job();
  // Shell 1's clock is not known, so it seems to have come after all had gone on.
  job.shells[1].clock = Clock();
  Trace trace = traced(job);
  CHECK(trace.about["arrows_left_out"] == 9);
  CHECK(named(trace, "s", "start barrier").empty());
}

TEST_CASE("what has not ended goes on until the end of the trace, and is marked") {
  JobTimeline job = sample_job();
  std::erase_if(job.shells[2].events, [](const TimelineEvent& each) { return each.kind == Kind::exit; });
  auto run = named(traced(job), "X", "run");
  auto count = std::count_if(run.begin(), run.end(), [](const Json& each) {
    return each.contains("args") && each.at("args").value("unfinished", false);
  });
  CHECK(count == 2);
}

TEST_CASE("prologs and starts of shells are spans, whose ends pair with their beginnings") {
  Trace trace = traced(sample_job());
  auto begin = named(trace, "b", "prolog"), end = named(trace, "e", "prolog");
  REQUIRE(begin.size() == 1);
  REQUIRE(end.size() == 1);
  CHECK(begin[0]["id"] == end[0]["id"]);
  CHECK(end[0]["ts"].get<double>() - begin[0]["ts"].get<double>() == 7000.0);
  CHECK(named(trace, "b", "ssh n2").size() == 1);
}

TEST_CASE("PMI, first output, marks and counters are in the trace") {
  JobTimeline job = sample_job();
  ShellBy by;
  by.at(0, Kind::booted).task(0, 10, 12, 90).at(20, Kind::pmi_init, "", 0).at(80, Kind::pmi_finalize, "", 0);
  by.at(30, Kind::first_output, "", 0).at(40, Kind::mark, "read", 0).at(41, Kind::mark, "all", kNoRank);
  by.at(50, Kind::not_started, "", 1);
  ShellTimeline shell = by.timeline(0);
  shell.events.push_back({kStart + 10 * kMs, 4096, 0, Kind::memory, 0});
  shell.events.push_back({kStart + 10 * kMs, 0, 0, Kind::cpu, 0});
  shell.events.push_back({kStart + 20 * kMs, 5000, 0, Kind::cpu, 0});
  job.shells = {shell};
  job.shells[0].clock.set_same();
  Trace trace = traced(job);
  CHECK(named(trace, "X", "PMI").at(0)["dur"] == 60'000.0);
  CHECK(named(trace, "i", "first output").size() == 1);
  CHECK(named(trace, "i", "read").at(0)["tid"] == 1);
  CHECK(named(trace, "i", "all").at(0)["tid"] == 9);
  CHECK(named(trace, "C", "memory").at(0)["args"]["bytes"] == 4096);
  CHECK(named(trace, "C", "cpu").at(0)["args"]["cores"] == 0.5);
  CHECK(named(trace, "i", "not started").size() == 1);
}

TEST_CASE("above its limit a trace has the slowest ranks and a sample, and says so") {
  JobTimeline job = sample_job();
  job.shells.resize(1);
  ShellBy by;
  constexpr std::uint32_t kRanks = 1000;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) by.task(rank, 10, rank == 777 ? 500 : 11, 600);
  job.tasks = kRanks;
  job.shells[0] = by.timeline(0);
  CHECK_FALSE(traced(job).about.contains("sampled"));
  Trace trace = traced(job, 2000);
  CHECK(trace.events.size() <= 2000);
  CHECK(trace.about["sampled"]["ranks"]["of"] == kRanks);
  CHECK(trace.about["sampled"]["ranks"]["shown"] == ranks_in(trace));
  CHECK(ranks_in(trace) > 200);
  auto run = named(trace, "X", "run");
  CHECK(std::count_if(run.begin(), run.end(), [](const Json& each) { return each.at("tid") == 778; }) == 1);
}

TEST_CASE("a sample has all if there is room, else the slowest 1 % and the rest evenly") {
  std::vector<Sampled> all(1000, {1, 10});
  CHECK(sample_of(all, 10'000) == std::vector<bool>(1000, true));
  all[3].time = all[500].time = 9;
  auto shown = sample_of(all, 1000);
  CHECK(shown[3]);
  CHECK(shown[500]);
  auto count = std::count(shown.begin(), shown.end(), true);
  CHECK(count >= 95);
  CHECK(count <= 100);
  for (int part = 0; part < 10; ++part)
    CHECK(std::count(shown.begin() + part * 100, shown.begin() + (part + 1) * 100, true) >= 7);
  auto one = sample_of(all, 0);
  CHECK(std::count(one.begin(), one.end(), true) == 1);
  CHECK(sample_of({}, 10).empty());
}

TEST_CASE("the document is JSON as the format has it") {
  auto json = parse_json(traced(sample_job()).text());
  REQUIRE(json);
  CHECK((*json)["traceEvents"].size() == traced(sample_job()).events.size());
  CHECK((*json)["displayTimeUnit"] == "ms");
  CHECK((*json)["otherData"]["job"] == "fSample");
}

TEST_CASE("names are in the trace as they are, whatever is in them") {
  for (std::string name : {"plain", "\"quoted\" and \\", "a line\nand another\x01", "gr\xc3\xbc\xc3\x9f"}) {
    JobTimeline job = sample_job();
    ShellBy by;
    by.at(0, Kind::booted).task(0, 10, 12, 90).at(40, Kind::mark, name, 0);
    job.shells = {by.timeline(0)};
    CHECK(named(traced(job), "i", name).size() == 1);
  }
}

TEST_CASE("the begin of a slice and its duration are exactly the begin of the slice that follows at once") {
  for (int i = 0; i < 200; ++i) {
    ShellBy by;
    const double spawn = 1 + i * 0.333'221, exec = spawn + 4.229'159 + i * 0.000'007;
    by.at(0, Kind::booted).task(0, spawn, exec, exec + 1);
    JobTimeline job;
    job.tasks = 1;
    job.shells.push_back(by.timeline(0));
    Trace trace = traced(job);
    const Json first = named(trace, "X", "spawn").at(0), next = named(trace, "X", "run").at(0);
    CAPTURE(first.dump(), next.dump());
    CHECK(first.at("ts").get<double>() + first.at("dur").get<double>() == next.at("ts").get<double>());
  }
}
