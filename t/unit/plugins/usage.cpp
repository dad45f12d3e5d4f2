// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/usage.hpp"

#include <deque>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "job_of_nodes.hpp"
#include "plugins/usage/meter.hpp"
#include "quiet_port.hpp"
#include "usage/table.hpp"

using namespace nacre;
using Lines = std::vector<std::string>;

namespace {

// The leader's way to other shells, by hand.
class OtherShells final : public kit::QuietPort {
 public:
  void serve(bulk::Channel channel, Upward owner) override {
    if (channel == bulk::up::kUsage) upward_ = std::move(owner);
  }
  using QuietPort::serve;
  Result<bool> put(bulk::Channel /*channel*/, std::string_view bytes) override {
    if (!has_room) return false;
    sent.emplace_back(bytes);
    return true;
  }
  void taken(bulk::Id /*origin*/, bulk::Numbered /*number*/) override { ++taken_records; }

  void come(bulk::Id shell, std::string_view bytes) { upward_.on_record(shell, {}, bytes); }
  void room() {
    has_room = true;
    upward_.on_room();
  }

  bool has_room = true;
  Lines sent;
  int taken_records = 0;

 private:
  Upward upward_;
};

usage::UsageBatch last_batch(std::uint32_t shell, std::uint32_t rank) {
  usage::UsageBatch out;
  out.rows.emplace_back();
  out.rows[0].rank = rank;
  out.rows[0].started = 1;
  out.node = usage::NodeRow{shell, 1, 0.5, {}, {}};
  return out;
}

Json usage_of(kit::FakeHost& host, Json in) {
  plugin::Call call("job.usage");
  call.in = std::move(in);
  REQUIRE(host.stack().call(call));
  return call.out;
}

// A job of three shells with a task each; this one is `shell`.
struct MeasuredJob {
  explicit MeasuredJob(std::uint32_t shell, std::uint64_t most = 100, const Json& option = true)
      : host(kit::jobspec_of(3, 1, {"a", "b"}, Json::object()), kit::resources_of(3, 1), shell) {
    host.port = &port;
    host.stack().push(plugins::make_usage_of(host, most));
    host.options().set("usage", option);
    if (most >= 3) host.options().set("joblog", folder.path("joblog"));
    begun = host.call("shell.init");
    if (!begun) return;
    host.start_tasks();
    REQUIRE(host.call_task("task.fork", 0));
  }
  void end() {
    REQUIRE(host.end_task(0, value::WaitStatus::exited(0)));
    REQUIRE(host.call("shell.finish"));
  }

  kit::TemporaryFolder folder;
  OtherShells port;
  kit::FakeHost host;
  Result<int> begun = 0;
};

}  // namespace

TEST_CASE("usage: nothing is measured, or answered, unless it is asked for") {
  for (const Json& off : {Json(), Json(false), Json("off"), Json(0)}) {
    kit::FakeHost host(1);
    host.stack().push(plugins::make_usage(host));
    if (!off.is_null()) host.options().set("usage", off);
    REQUIRE(host.call("shell.init"));
    CHECK_FALSE(host.stack().listens("task.exit"));
    CHECK(usage_of(host, Json::object()).empty());
  }
}

TEST_CASE("usage: the leader waits for each other shell, which sends its rows or is lost") {
  MeasuredJob job(0);
  REQUIRE(job.begun);
  job.end();
  job.port.come(1, last_batch(1, 1).text());
  CHECK(job.port.taken_records == 1);
  REQUIRE(job.host.call("shell.tasks-complete"));
  CHECK(job.host.holds["usage"] == 1);
  plugin::Call lost("shell.lost");
  lost.in["shell_rank"] = 2;
  REQUIRE(job.host.stack().call(lost));
  CHECK(job.host.holds["usage"] == 0);
  job.host.ended({{"exit", {{"code", 0}}}});
  Json summary = usage_of(job.host, Json::object());
  CHECK(summary["missing"] == "2");
  CHECK(summary["ended"] == 2);
  CHECK(summary["nodes"].size() == 2);
  CHECK(usage_of(job.host, {{"from", 1}})["rows"].size() == 1);
}

TEST_CASE("usage: rows that are not of the shell that sends them are left out") {
  MeasuredJob job(0);
  for (const std::string& bytes : {last_batch(1, 2).text(), last_batch(2, 1).text(), std::string("no JSON")}) {
    job.host.logged.clear();
    job.port.come(1, bytes);
    CHECK(job.host.logged.size() == 1);
  }
  CHECK(usage_of(job.host, {{"from", 0}})["rows"].empty());
}

TEST_CASE("usage: another shell sends what it has once there is room, its node at last") {
  MeasuredJob job(1);
  job.port.has_room = false;
  job.end();
  CHECK(job.port.sent.empty());
  job.port.room();
  REQUIRE(job.port.sent.size() == 1);
  auto batch = usage::UsageBatch::parse(job.port.sent[0]).value();
  REQUIRE(batch.rows.size() == 1);
  CHECK(batch.rows[0].rank == 1);
  CHECK(batch.node->shell == 1);
  CHECK(batch.node->tasks == 1);
  CHECK_FALSE(batch.totals);
  REQUIRE(job.host.call("shell.exit"));
  CHECK(job.port.sent.size() == 1);
}

TEST_CASE("usage: rows whose commands are long go in as many records as they need") {
  kit::FakeHost host(2);
  OtherShells port;
  host.port = &port;
  plugins::UsageUplink uplink(host, {}, false, false);
  uplink.serve([](bulk::Id, std::string_view) {});
  constexpr std::uint32_t kRows = 150;
  for (std::uint32_t rank = 0; rank < kRows; ++rank) {
    usage::TaskRow row;
    row.rank = rank;
    row.command.assign(usage::TaskRow::kMaxCommand, '\x01');
    uplink.add(std::move(row));
  }
  uplink.finish({1, kRows, 0.5, {}, {}});
  std::vector<std::uint32_t> ranks;
  for (std::size_t i = 0; i < port.sent.size(); ++i) {
    CHECK(port.sent[i].size() <= bulk::kMaxRecord);
    auto batch = usage::UsageBatch::parse(port.sent[i]).value();
    for (const usage::TaskRow& row : batch.rows) ranks.push_back(row.rank);
    CHECK(batch.node.has_value() == (i + 1 == port.sent.size()));
  }
  REQUIRE(ranks.size() == kRows);
  for (std::uint32_t rank = 0; rank < kRows; ++rank) CHECK(ranks[rank] == rank);
}

TEST_CASE("usage: of more tasks than the most there are only totals, and no log") {
  MeasuredJob other(1, 2);
  REQUIRE(other.begun);
  other.end();
  REQUIRE(other.port.sent.size() == 1);
  auto batch = usage::UsageBatch::parse(other.port.sent[0]).value();
  CHECK(batch.rows.empty());
  REQUIRE(batch.totals);
  CHECK(batch.totals->ended == 1);
  MeasuredJob leader(0, 2);
  leader.end();
  leader.port.come(1, other.port.sent[0]);
  Json summary = usage_of(leader.host, Json::object());
  CHECK(summary["ended"] == 2);
  CHECK(summary["measures"]["wall"]["n"] == 2);
  CHECK(summary["measures"]["wall"].contains("median_at_most"));
  CHECK(usage_of(leader.host, {{"from", 0}})["rows"].empty());
  kit::FakeHost host(3);
  host.stack().push(plugins::make_usage_of(host, 2));
  host.options().set("joblog", "log");
  CHECK(host.call("shell.init").error().message ==
        "plugin 'usage': shell.init: joblog: a log has a line for each task, of at most 2 tasks; the job has 3: "
        "leave it out, or take usage, whose summary has no limit");
}

TEST_CASE("usage: the log has the job's command, or the task's own") {
  MeasuredJob job(0);
  job.host.tasks()[0]->command().argv = {"a", "it's"};
  job.end();
  job.port.come(1, last_batch(1, 1).text());
  job.host.ended({{"exit", {{"code", 0}}}});
  std::string log = read_file(job.folder.path("joblog")).value();
  CHECK(log.find("\ta 'it'\\''s'\n") != std::string::npos);
  CHECK(log.find("\ta b\n") != std::string::npos);
}

TEST_CASE("usage: with joblog=on, as other shells have it, rows have commands, and nothing is written") {
  OtherShells port;
  kit::FakeHost host(kit::jobspec_of(3, 1, {"a", "b"}, Json::object()), kit::resources_of(3, 1), 1);
  host.port = &port;
  host.stack().push(plugins::make_usage(host));
  host.options().set("joblog", "on");
  REQUIRE(host.call("shell.init"));
  host.start_tasks();
  host.tasks()[0]->command().argv = {"c"};
  REQUIRE(host.call_task("task.fork", 0));
  REQUIRE(host.end_task(0, value::WaitStatus::exited(0)));
  REQUIRE(host.call("shell.finish"));
  REQUIRE(port.sent.size() == 1);
  CHECK(usage::UsageBatch::parse(port.sent[0]).value().rows.at(0).command == "c");
}

TEST_CASE("usage: what is no place is refused") {
  for (const Json& option : {Json::object(), Json::array(), Json(""), Json(99999)}) {
    kit::FakeHost host(1);
    host.stack().push(plugins::make_usage(host));
    host.options().set("usage", option);
    CHECK_FALSE(host.call("shell.init"));
  }
}
