// SPDX-License-Identifier: Apache-2.0
//
// The plugin timeline in one shell: what it asks, answers and waits for. t/unit/timeline tests the results.

#include "plugins/timeline/timeline.hpp"
#include "base/file.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "job_of_nodes.hpp"
#include "plugins/builtins.hpp"
#include "quiet_port.hpp"
#include "timeline/facts.hpp"

using namespace nacre;  // NOLINT
using timeline::Kind;
using timeline::TimelineBatch;
using timeline::TimelineEvent;

namespace {

// The way to other shells, by hand.
class TimelinePort final : public kit::QuietPort {
 public:
  void serve(bulk::Channel channel, Upward owner) override {
    if (channel == bulk::up::kTimeline) upward_ = std::move(owner);
  }
  using QuietPort::serve;
  Result<bool> put(bulk::Channel /*channel*/, std::string_view bytes) override {
    if (!has_room) return false;
    auto batch = TimelineBatch::parse(bytes);
    REQUIRE(batch);
    sent.push_back(*batch);
    return true;
  }

  void come(bulk::Id shell, const TimelineBatch& batch) { upward_.on_record(shell, {}, batch.text()); }
  void come(bulk::Id shell, std::string_view bytes) { upward_.on_record(shell, {}, bytes); }
  void room() {
    has_room = true;
    upward_.on_room();
  }

  bool has_room = true;
  std::vector<TimelineBatch> sent;

 private:
  Upward upward_;
};

// A job of three shells with a task each; this one is `shell`.
struct ShellOfJob {
  explicit ShellOfJob(std::uint32_t shell, const Json& option = true)
      : host(kit::jobspec_of(3, 1, {"a"}, Json::object()), kit::resources_of(3, 1), shell) {
    host.port = &port;
    heard = host.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == "timeline.ask") asked.push_back(Json::parse(bytes));
    });
    host.stack().push(plugins::make_timeline(host));
    if (!option.is_null()) host.options().set("timeline", option);
    host.make_tasks();
    begun = host.call("shell.init");
  }

  void start() { host.events().add({{"name", "shell.start"}, {"context", Json::object()}}); }
  void ask(std::uint64_t number, bool events) {
    host.announced("timeline.ask", dump_json({{"number", number}, {"events", events}}));
  }
  void answer(std::uint32_t shell, const TimelineBatch& batch = {}) {
    TimelineBatch with_number = batch;
    with_number.number = asked.back()["number"].get<std::uint64_t>();
    with_number.is_last = true;
    port.come(shell, with_number);
  }
  plugins::TimelineSource& source() { return *plugins::timeline_of(host); }

  TimelinePort port;
  kit::FakeHost host;
  plugin::Registration heard;
  std::vector<Json> asked;
  Result<int> begun = 0;
};

TimelineBatch with_events(std::vector<TimelineEvent> events, std::uint64_t number = 0) {
  TimelineBatch out;
  out.number = number;
  out.names = {""};
  out.events = std::move(events);
  return out;
}

TimelineEvent event_of(Kind kind, std::uint32_t subject = 0) { return {1000, 0, subject, kind, 0}; }

}  // namespace

TEST_CASE("timeline: nothing is kept, asked or answered unless it is asked for") {
  for (const Json& off : {Json(), Json(false), Json("off"), Json(0)}) {
    ShellOfJob job(0, off);
    REQUIRE(job.begun);
    CHECK_FALSE(job.host.timeline().is_on());
    CHECK_FALSE(job.source().is_on());
    job.start();
    CHECK(job.asked.empty());
    CHECK_FALSE(job.host.stack().listens("shell.finish"));
  }
  ShellOfJob wrong(0, Json(Json::array()));
  CHECK_FALSE(wrong.begun);
}

TEST_CASE("timeline: a file that cannot be written is an error before the start") {
  ShellOfJob job(0, "/no/such/dir/t.json");
  REQUIRE_FALSE(job.begun);
  CHECK(job.begun.error().message.find("timeline: /no/such/dir/t.json: No such file or directory") !=
        std::string::npos);
}

TEST_CASE("timeline: once all tasks run the leader asks for clocks, one question after the other") {
  ShellOfJob job(0);
  REQUIRE(job.begun);
  job.start();
  REQUIRE(job.asked.size() == 1);
  CHECK(job.asked[0]["events"] == false);
  job.answer(1);
  CHECK(job.asked.size() == 1);
  job.answer(2);
  CHECK(job.asked.size() == 2);
  // A lost shell is not waited for any more.
  job.answer(1);
  plugin::Call lost("shell.lost");
  lost.in["shell_rank"] = 2;
  REQUIRE(job.host.stack().call(lost));
  CHECK(job.asked.size() == 3);
  for (int i = 0; i < 3; ++i) job.answer(1);
  CHECK(job.asked.size() == 5);
}

TEST_CASE("timeline: what is asked for comes from all, each event once; who is late or lost is named") {
  ShellOfJob job(0);
  job.host.timeline().add(Kind::enters, "init");
  std::vector<timeline::JobTimeline> got;
  auto take = [&](const timeline::JobTimeline& all) { got.push_back(all); };
  REQUIRE(job.source().collect(take));
  CHECK(job.asked.at(0)["events"] == true);
  job.answer(1, with_events({event_of(Kind::booted), event_of(Kind::exit, 1)}));
  CHECK(got.empty());
  job.answer(2, with_events({event_of(Kind::booted)}));
  REQUIRE(got.size() == 1);
  CHECK(got[0].shells[0].events.size() == 1);
  CHECK(got[0].shells[1].events.size() == 2);
  CHECK(got[0].shells[1].host == "node1");
  CHECK(got[0].shells[2].presence == timeline::Presence::complete);
  REQUIRE(job.source().collect(take));
  TimelineBatch next = with_events({event_of(Kind::exit, 1)});
  next.first = 2;
  job.answer(1, next);
  CHECK(job.host.serve([&] { return got.size() == 2; }));
  CHECK(got[1].shells[1].events.size() == 3);
  CHECK(got[1].shells[2].presence == timeline::Presence::late);
}

TEST_CASE("timeline: no more than four questions are open at a time") {
  ShellOfJob job(0);
  auto ignore = [](const timeline::JobTimeline&) {};
  for (int i = 0; i < 4; ++i) REQUIRE(job.source().collect(ignore));
  auto refused = job.source().collect(ignore);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == EBUSY);
}

TEST_CASE("timeline: events that are not of the tasks of the shell that sends them are left out, with a warning") {
  ShellOfJob job(0);
  for (const std::string& bytes : {with_events({event_of(Kind::exit, 2)}).text(),
                                   with_events({event_of(Kind::spawn, 77)}).text(), std::string("x")}) {
    job.host.logged.clear();
    job.port.come(1, bytes);
    CHECK(job.host.logged.size() == 1);
  }
  job.port.come(1, with_events({event_of(Kind::mark, timeline::kNoRank)}));
  CHECK(job.host.logged.size() == 1);
}

TEST_CASE("timeline: another shell answers, each event once, and sends the rest at its end") {
  ShellOfJob job(1);
  REQUIRE(job.begun);
  job.host.timeline().add(Kind::enters, "init");
  job.ask(7, false);
  REQUIRE(job.port.sent.size() == 1);
  CHECK(job.port.sent[0].number == 7);
  CHECK(job.port.sent[0].is_last);
  CHECK(job.port.sent[0].events.empty());
  CHECK(job.port.sent[0].received <= job.port.sent[0].sent);
  job.ask(8, true);
  REQUIRE(job.port.sent.size() == 2);
  CHECK(job.port.sent[1].events.size() == 1);
  CHECK(job.port.sent[1].names == std::vector<std::string>{"", "init"});
  job.host.timeline().add(Kind::passes, "init");
  REQUIRE(job.host.call("shell.finish"));
  CHECK(job.port.sent.back().events.size() == 1);
  CHECK_FALSE(job.port.sent.back().is_last);
  job.host.timeline().add(Kind::enters, "exit");
  job.host.timeline().closing();
  CHECK(job.port.sent.back().number == 0);
  CHECK(job.port.sent.back().is_last);
  CHECK(job.port.sent.back().events.size() == 1);
}

TEST_CASE("timeline: many events go in several records, of which one is the last") {
  ShellOfJob job(1);
  for (std::uint32_t i = 0; i < 4000; ++i) job.host.timeline().add(Kind::exit, 1);
  job.ask(1, true);
  REQUIRE(job.port.sent.size() == 3);
  CHECK_FALSE(job.port.sent[1].is_last);
  CHECK(job.port.sent[2].is_last);
  CHECK(job.port.sent[0].events.size() == TimelineBatch::kMostEvents);
}

TEST_CASE("timeline: a shell does not leave before its clock is known, or what it sends has room") {
  ShellOfJob job(1);
  job.start();
  CHECK(job.host.holds["timeline"] == 1);
  for (std::uint64_t i = 1; i <= 5; ++i) job.ask(i, false);
  CHECK(job.host.holds["timeline"] == 0);
  job.host.timeline().add(Kind::enters, "init");
  job.port.has_room = false;
  REQUIRE(job.host.call("shell.finish"));
  CHECK(job.host.holds["timeline"] == 1);
  job.port.room();
  CHECK(job.host.holds["timeline"] == 0);
}

TEST_CASE("timeline: a shell waits for a leader that asks nothing, but not for long") {
  ShellOfJob job(1);
  job.start();
  CHECK(job.host.serve([&] { return job.host.holds["timeline"] == 0; }));
}

TEST_CASE("timeline: plugins note what they like, and PMI's init and finalize of ranks") {
  ShellOfJob job(1);
  auto note = [&](const Json& in) {
    plugin::Call call("timeline.mark");
    call.in = in;
    return job.host.stack().call(call).has_value();
  };
  CHECK(note({{"name", "mesh is read"}}));
  CHECK(note({{"name", "pmi.init"}, {"rank", 1}}));
  CHECK_FALSE(note({{"name", "pmi.init"}, {"rank", 2}}));
  CHECK_FALSE(note({{"rank", 1}}));
  const auto& events = job.host.timeline().events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].subject == timeline::kNoRank);
  CHECK(job.host.timeline().names().at(events[0].name) == "mesh is read");
  CHECK(events[1].kind == Kind::pmi_init);
}

TEST_CASE("timeline: at the job's end the trace is in the file, and the summary is kept with its name") {
  kit::TemporaryFolder folder;
  ShellOfJob job(0, folder.path("t.json"));
  REQUIRE(job.begun);
  job.host.timeline().add(Kind::enters, "init");
  TimelineBatch last = with_events({event_of(Kind::booted)});
  last.is_last = true;
  job.port.come(1, last);
  job.host.ended({{"exit", {{"code", 0}}}});
  Json trace = Json::parse(read_file(folder.path("t.json")).value());
  CHECK(trace["otherData"]["over"] == true);
  CHECK(trace["otherData"]["late"] == Json::parse(R"([{"shell": 2, "host": "node2"}])"));
  CHECK(job.source().kept()["file"] == folder.path("t.json"));
  CHECK(job.source().kept()["late"]["places"] == Json::array({"node2"}));
}
