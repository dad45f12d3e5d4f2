// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <unistd.h>

#include "catch.hpp"

#include "front/top_view.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::front;    // NOLINT
using namespace nacre::control;  // NOLINT

namespace {

using Kind = TopKey::Kind;
using Style = TopLine::Style;

// `nodes` nodes with two tasks each; the node before the last uses most CPU time, the last most memory.
TopSample many(std::uint32_t nodes) {
  TopSample out;
  out.status = {"fABC", "job", 2 * nodes, nodes, 2 * nodes, 1000, false, {}};
  for (std::uint32_t rank = 0; rank < 2 * nodes; ++rank) {
    std::uint32_t shell = rank / 2;
    PsTask task;
    task.rank = rank;
    task.shell = shell;
    task.host = "n" + std::to_string(shell);
    task.pid = 100 + rank;
    task.state = "R";
    task.time = 10 + rank % 2;
    task.cpu = shell + 2 == nodes ? 1 : 0.5;
    task.rss = shell + 1 == nodes ? 4096 : 1024;
    task.command = "app";
    out.tasks.push_back(task);
  }
  return out;
}

struct World {
  explicit World(std::uint32_t nodes, TopView::Rows rows = TopView::Rows::nodes) : view(rows, 2) {
    model.take(many(nodes), 1010);
  }
  std::vector<TopLine> screen() { return view.screen(model, width, height); }
  bool press(Kind kind) { return view.press({kind, 0}, model, height); }
  bool press(char letter) { return view.press({Kind::text, letter}, model, height); }
  void type(const std::string& text) {
    for (char each : text) CHECK(press(each));
  }
  // The first word of the selected row.
  std::string selected() {
    for (const TopLine& each : screen()) {
      if (each.style == Style::selected)
        return each.text.substr(0, each.text.find(' ', each.text.find_first_not_of(' ')));
    }
    return "none";
  }
  std::string last() { return screen().back().text; }

  TopModel model;
  TopView view;
  std::size_t width = 80, height = 24;
};

}  // namespace

TEST_CASE("a header, headings, a row for each node, what keys do") {
  World world(2);
  auto lines = world.screen();
  REQUIRE(lines.size() == 24);
  CHECK(lines[0].text == "nacre top: fABC job  running  10.0s  2 nodes");
  CHECK(lines[0].style == Style::title);
  CHECK(lines[1].text == "tasks 4: 4 running, 0 failed, 0 ended  cpu 300.0%  rss 10.0K");
  CHECK(lines[2].text == "HOST TASKS  CPU%  RSS LATE");
  CHECK(lines[2].style == Style::heading);
  CHECK(lines[3].text == "n0       2 200.0 2.0K    -");
  CHECK(lines[3].style == Style::selected);
  CHECK(lines[4].style == Style::plain);
  CHECK(lines[5].text.empty());
  CHECK(lines[23].text == "enter: tasks  s: by HOST  d: every 2 s  q: quit");
}

TEST_CASE("no line is longer than the screen, and there are not more of them, whatever its size") {
  World world(100);
  for (std::size_t height = 0; height < 30; ++height) {
    for (std::size_t width : {0U, 1U, 10U, 79U, 200U}) {
      world.width = width;
      world.height = height;
      auto lines = world.screen();
      CHECK(lines.size() <= height);
      for (const TopLine& each : lines) CHECK(each.text.size() <= width);
    }
    world.width = 80;
    std::size_t shown = 0;
    for (const TopLine& each : world.screen()) shown += each.style == Style::selected ? 1 : 0;
    CHECK(shown == (height >= 4 ? 1 : 0));
  }
}

TEST_CASE("the selected row is always shown, and follows its node") {
  World world(100);
  CHECK(world.selected() == "n0");
  CHECK(world.press(Kind::up));
  CHECK(world.selected() == "n0");
  CHECK(world.press('j'));
  CHECK(world.press(Kind::down));
  CHECK(world.selected() == "n2");
  CHECK(world.press('k'));
  CHECK(world.selected() == "n1");
  CHECK(world.press(Kind::page_down));
  CHECK(world.selected() == "n21");
  CHECK(world.press(Kind::end));
  CHECK(world.selected() == "n99");
  CHECK(world.screen()[22].text.starts_with("n99 "));
  world.height = 10;
  CHECK(world.selected() == "n99");
  CHECK(world.press('s'));  // by CPU%
  CHECK(world.selected() == "n99");
  CHECK(world.press(Kind::home));
  CHECK(world.selected() == "n98");
  world.model.take(many(50), 1012);  // the selected node is still there: tasks have ended
  CHECK(world.selected() == "n98");
  CHECK(world.press(Kind::page_up));
  CHECK(world.selected() != "none");
}

TEST_CASE("s sorts by one column after the other") {
  World world(4);
  auto first = [&] { return world.screen()[3].text.substr(0, 2); };
  CHECK(first() == "n0");
  CHECK(world.press('s'));
  CHECK(first() == "n2");
  CHECK(world.last().find("s: by CPU%") != std::string::npos);
  CHECK(world.press('s'));
  CHECK(first() == "n3");
  CHECK(world.last().find("s: by RSS") != std::string::npos);
  CHECK(world.press('s'));
  CHECK(world.last().find("s: by TASKS") != std::string::npos);
  CHECK(world.press('s'));
  CHECK(world.last().find("s: by HOST") != std::string::npos);
  CHECK(first() == "n0");
}

TEST_CASE("enter shows the tasks of the selected node, and q goes back to it, then out") {
  World world(4);
  CHECK(world.press('j'));
  CHECK(world.press(Kind::enter));
  auto lines = world.screen();
  CHECK(lines[2].text == "RANK HOST PID ST  TIME CPU%  RSS CMD");
  CHECK(lines[3].text == "   2 n1   102 R  10.0s 50.0 1.0K app");
  CHECK(lines[4].text == "   3 n1   103 R  11.0s 50.0 1.0K app");
  CHECK(lines[5].text.empty());
  CHECK(world.last() == "tasks of n1, q: nodes  s: by RANK  d: every 2 s");
  CHECK(world.press(Kind::enter));
  for (int i = 0; i < 3; ++i) CHECK(world.press('s'));
  CHECK(world.screen()[3].text.starts_with("   3 "));  // by TIME
  CHECK(world.press('q'));
  CHECK(world.selected() == "n1");
  CHECK(world.press(Kind::enter));
  CHECK(world.press(Kind::back));
  CHECK(world.selected() == "n1");
  CHECK(world.press(Kind::back));
  CHECK(!world.press('q'));
}

TEST_CASE("all tasks: q leaves") {
  World world(3, TopView::Rows::tasks);
  CHECK(world.screen()[8].text.starts_with("   5 n2 "));
  CHECK(world.press(Kind::enter));
  CHECK(!world.press('q'));
}

TEST_CASE("d asks for the delay, and refuses what is none") {
  World world(1);
  CHECK(world.press('d'));
  CHECK(world.last() == "seconds from one look to the next (0.1 to 3600): _");
  world.type("0.x5j");
  CHECK(world.last().ends_with(": 0.5_"));
  CHECK(world.press(Kind::erase));
  CHECK(world.press('4'));
  CHECK(world.press(Kind::enter));
  CHECK(world.view.delay() == 0.4);
  CHECK(world.last().find("every 0.4 s") != std::string::npos);
  for (const char* wrong : {"0", "0.01", "9999", ".", "1.2.3"}) {
    CHECK(world.press('d'));
    world.type(wrong);
    CHECK(world.press(Kind::enter));
    CHECK(world.last().find("expected 0.1 to 3600 seconds") != std::string::npos);
    CHECK(world.view.delay() == 0.4);
  }
  CHECK(world.press('d'));
  world.type("7777777777777");
  CHECK(world.last().ends_with(": 77777777_"));
  CHECK(world.press(Kind::back));
  CHECK(world.press('d'));
  CHECK(world.press(Kind::enter));
  CHECK(world.view.delay() == 0.4);
  CHECK(world.press('q') == false);
}

TEST_CASE("an unknown key tells which there are, until the next") {
  World world(1);
  CHECK(world.press('x'));
  CHECK(world.last().starts_with("keys: "));
  CHECK(world.press('j'));
  CHECK(world.last().starts_with("enter: "));
}

TEST_CASE("what stands out: failures, shells that are late, a leader that does not answer") {
  World world(3);
  TopSample sample = many(3);
  sample.failed = 1;
  sample.late = {"n1", "n2"};
  world.model.take(sample, 1014.5);
  auto lines = world.screen();
  CHECK(lines[1].text.ends_with(", 1 failed, 0 ended  cpu 400.0%  rss 12.0K  late: n1,n2"));
  CHECK(lines[1].style == Style::alarm);
  CHECK(lines[4].text.ends_with(" 4.500s"));
  CHECK(lines[4].style == Style::alarm);
  world.view.set_waiting(4);
  CHECK(world.last() == "the leader has not answered for 4.000s");
  TopView empty(TopView::Rows::nodes, 2);
  CHECK(empty.screen(TopModel(), 80, 24).size() == 24);
}

TEST_CASE("names that a terminal would take for commands are shown") {
  World world(1);
  TopSample sample = many(1);
  sample.status.name = "a\x1b[2Jb";
  sample.tasks[0].host = sample.tasks[1].host = "n\x07";
  world.model.take(sample, 1011);
  CHECK(world.screen()[0].text.find("a\\x1b[2Jb") != std::string::npos);
  CHECK(world.screen()[3].text.starts_with("n\\x07 "));
  CHECK(world.view.text(world.model).find('\x1b') == std::string::npos);
}

TEST_CASE("without a terminal: the header and a table") {
  World world(2);
  CHECK(world.view.text(world.model) ==
        "nacre top: fABC job  running  10.0s  2 nodes\n"
        "tasks 4: 4 running, 0 failed, 0 ended  cpu 300.0%  rss 10.0K\n"
        "HOST TASKS  CPU%  RSS LATE\n"
        "n0       2 200.0 2.0K    -\n"
        "n1       2 100.0 8.0K    -\n");
}

TEST_CASE("columns for GPUs are there if they are asked for, with what is not known as a dash") {
  TopSample sample = many(2);
  sample.tasks[0].gpu_memory = 1024;
  sample.tasks[0].gpu_device_use = 0.5;
  sample.tasks[1].gpu_memory = 2048;
  sample.tasks[1].gpu_device_use = 0.25;
  sample.tasks[3].gpu_memory = 5000;
  sample.notes = {"n\x1b tool"};
  TopModel model;
  model.take(sample, 1010);
  CHECK(TopView(TopView::Rows::nodes, 2).text(model).find("GPUMEM") == std::string::npos);
  TopView nodes(TopView::Rows::nodes, 2, true);
  CHECK(nodes.text(model) ==
        "nacre top: fABC job  running  10.0s  2 nodes\n"
        "tasks 4: 4 running, 0 failed, 0 ended  cpu 300.0%  rss 10.0K  gpu: n\\x1b tool\n"
        "HOST TASKS  CPU%  RSS GPUMEM GPU% LATE\n"
        "n0       2 200.0 2.0K   3.0K 37.5    -\n"
        "n1       2 100.0 8.0K   4.9K    -    -\n");
  for (int i = 0; i < 3; ++i) REQUIRE(nodes.press({Kind::text, 's'}, model, 24));
  auto lines = nodes.screen(model, 80, 24);
  CHECK(lines.back().text.find("s: by GPUMEM") != std::string::npos);
  CHECK(lines[3].text.starts_with("n1 "));
  CHECK(lines[1].style == Style::alarm);
  TopView tasks(TopView::Rows::tasks, 2, true);
  CHECK(tasks.text(model).find("   1 n0   101 R  11.0s 100.0 1.0K   2.0K 25.0 app\n") != std::string::npos);
  Json json = model.json(true);
  CHECK(json["nodes"][0]["gpu_memory"] == 3072);
  CHECK(json["nodes"][0]["gpu_device_use"] == 0.375);
  CHECK_FALSE(json["nodes"][1].contains("gpu_device_use"));
  CHECK(json["tasks"][3]["gpu_memory"] == 5000);
  CHECK_FALSE(json["tasks"][2].contains("gpu_memory"));
  CHECK(json["notes"].size() == 1);
}

// What `nacre top` asks, and how it takes answers that come late, in parts, or not at all. The leader is this test.

namespace {

const Json kStatus{{"id", "f1"},   {"name", "a"},    {"tasks", 2},     {"shells", 1},
                   {"running", 2}, {"started", 1.5}, {"ending", false}};
const Json kExits{{"running", "0-1"}, {"exits", {{{"record", "x3"}, {"count", 1}}}}};

Json part(std::uint32_t rank) {
  Json task{{"rank", rank}, {"host", "n0"}, {"pid", 5}, {"state", "R"},  {"try", 1},
            {"time", 1.0},  {"cpu", 0.5},   {"rss", 9}, {"command", "a"}};
  return {{"tasks", Json::array({task})}};
}

struct FeedWorld {
  FeedWorld() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    own = UniqueFd(ends[0]);
    UniqueFd theirs(ends[1]);
    send(line_of(ControlHello{"1"}));
    UniqueFd duplicate(::dup(theirs.get()));
    feed.emplace(Client::over(std::move(theirs), std::move(duplicate), "1", event::Seconds(5)).value());
  }
  void send(const std::string& text) {
    REQUIRE(::write(own.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void answer(std::uint64_t id, const Json& value, bool more = false) {
    send(line_of(Answer{id, value, {}, more}));
  }

  UniqueFd own;
  std::optional<TopFeed> feed;
};

}  // namespace

TEST_CASE("a sample is there once all has been answered, in any order") {
  FeedWorld world;
  CHECK(!world.feed->waiting_since());
  REQUIRE(world.feed->ask());
  CHECK(world.feed->waiting_since());
  REQUIRE(world.feed->ask());  // no request: answers are still awaited
  world.answer(3, part(0), true);
  world.answer(2, kExits);
  CHECK(!world.feed->take().value());
  world.answer(1, kStatus);
  CHECK(!world.feed->take().value());
  Json last = part(1);
  last["late"] = {"n1"};
  world.answer(3, last);
  auto sample = world.feed->take().value();
  REQUIRE(sample);
  CHECK(sample->tasks.size() == 2);
  CHECK(sample->failed == 1);
  CHECK(sample->late.size() == 1);
  CHECK(!world.feed->waiting_since());
  REQUIRE(world.feed->ask());
  world.answer(4, kStatus);  // of the next three requests
  world.answer(5, kExits);
  world.answer(6, part(0));
  CHECK(world.feed->take().value()->tasks.size() == 1);
}

TEST_CASE("a leader that is busy gives no sample, and is asked again") {
  FeedWorld world;
  REQUIRE(world.feed->ask());
  world.answer(1, kStatus);
  world.answer(2, kExits);
  world.send(line_of(Answer{3, Json(), Error{EBUSY, "too many"}}));
  CHECK(!world.feed->take().value());
  CHECK(!world.feed->waiting_since());
}

TEST_CASE("the job's end, a refusal, a wrong answer, the end of the link") {
  FeedWorld world;
  REQUIRE(world.feed->ask());
  SECTION("the end") {
    world.send(line_of(ControlEvent{1, "end", {{"code", 9}}}));
    CHECK(!world.feed->take().value());
    CHECK(world.feed->code() == 9);
    world.own.reset();
    CHECK(world.feed->take().error().code == ECONNRESET);
  }
  SECTION("a refusal") {
    world.send(line_of(Answer{3, Json(), Error{ENOSYS, "ps: not known"}}));
    CHECK(world.feed->take().error().message == "what the leader answers: ps: not known");
  }
  SECTION("a wrong answer") {
    world.answer(1, {{"id", 5}});
    CHECK(world.feed->take().error().code == EINVAL);
  }
  SECTION("of a request that is none of ours") {
    world.answer(77, Json(1));
    CHECK(!world.feed->take().value());
  }
}

namespace {

PsTask task_row(std::uint32_t rank, std::uint32_t shell, double time, double cpu_seconds, std::int64_t pid = 100) {
  PsTask out;
  out.rank = rank;
  out.shell = shell;
  out.host = "n" + std::to_string(shell);
  out.pid = pid + rank;
  out.state = "R";
  out.time = time;
  out.cpu = cpu_seconds / time;
  out.rss = 1000;
  out.command = "sleep";
  return out;
}

TopSample sample(std::vector<PsTask> tasks, std::vector<std::string> late = {}) {
  TopSample out;
  out.status = {"fABC", "job", 4, 2, tasks.size(), 1000, false, {"n0", "n1"}};
  out.tasks = std::move(tasks);
  out.late = std::move(late);
  return out;
}

}  // namespace

TEST_CASE("nodes are those of the job, also where none of their tasks runs") {
  TopModel model;
  CHECK(model.empty());
  model.take(sample({task_row(2, 1, 10, 5), task_row(3, 1, 10, 10)}), 1010);
  REQUIRE(model.nodes().size() == 2);
  CHECK(model.nodes()[0].host == "n0");
  CHECK(model.nodes()[0].tasks == 0);
  CHECK(model.nodes()[1].tasks == 2);
  CHECK(model.nodes()[1].cpu == Catch::Approx(1.5));
  CHECK(model.nodes()[1].rss == 2000);
  CHECK(model.cpu() == Catch::Approx(1.5));
  CHECK(model.time() == 10);
}

TEST_CASE("shells that have left are no nodes any more") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 5), task_row(3, 1, 10, 10)}), 1010);
  TopSample after = sample({task_row(0, 0, 12, 5)});
  after.status.gone = value::Idset::range(1, 1);
  model.take(after, 1012);
  REQUIRE(model.nodes().size() == 1);
  CHECK(model.nodes()[0].host == "n0");
  CHECK(model.json(false).at("nnodes") == 1);
}

TEST_CASE("CPU use is that since the sample before") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 10)}), 1010);
  CHECK(model.cpu() == Catch::Approx(1));
  model.take(sample({task_row(0, 0, 12, 10.5)}), 1012);
  CHECK(model.cpu() == Catch::Approx(0.25));
  SECTION("children that are gone take their time with them") {
    model.take(sample({task_row(0, 0, 14, 3)}), 1014);
    CHECK(model.cpu() == 0);
  }
  SECTION("another process of the same rank begins anew") {
    model.take(sample({task_row(0, 0, 14, 7, 500)}), 1014);
    CHECK(model.cpu() == Catch::Approx(0.5));
  }
  SECTION("two samples at once") {
    model.take(sample({task_row(0, 0, 12, 12)}), 1012);
    CHECK(model.cpu() == Catch::Approx(1));
  }
}

TEST_CASE("a shell that is late keeps its tasks, and has the time since its last answer") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 1), task_row(1, 1, 10, 1)}), 1010);
  CHECK(!model.nodes()[1].late);
  model.take(sample({task_row(0, 0, 12, 1)}, {"n1"}), 1012);
  REQUIRE(model.tasks().size() == 2);
  CHECK(model.nodes()[1].tasks == 1);
  CHECK(model.nodes()[1].late == 2.0);
  model.take(sample({task_row(0, 0, 15, 1)}, {"n1"}), 1015);
  CHECK(model.nodes()[1].late == 5.0);
  model.take(sample({task_row(0, 0, 16, 1)}), 1016);
  CHECK(!model.nodes()[1].late);
  CHECK(model.tasks().size() == 1);
}

TEST_CASE("a task that has ended is gone") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 1), task_row(1, 0, 10, 1)}), 1010);
  model.take(sample({task_row(1, 0, 12, 1)}), 1012);
  REQUIRE(model.tasks().size() == 1);
  CHECK(model.tasks()[0].rank == 1);
}

TEST_CASE("answers of a leader: what is wrong is named") {
  Json status{{"id", "f1"},   {"name", "a"},    {"tasks", 2},      {"shells", 2},
              {"running", 2}, {"started", 1.5}, {"ending", false}, {"state", "running"}};
  CHECK(TopStatus::parse(status)->hosts.empty());
  status["hosts"] = "n[0-1]";
  CHECK(TopStatus::parse(status)->hosts == std::vector<std::string>{"n0", "n1"});
  status["hosts"] = "n[0-";
  CHECK(TopStatus::parse(status).error().message.starts_with("hosts: "));
  status.erase("tasks");
  CHECK(TopStatus::parse(status).error().message.find("tasks") != std::string::npos);

  Json exits{{"exits",
              {{{"record", "x0"}, {"count", 5}},
               {{"record", "x3"}, {"count", 2}},
               {{"record", "c/s15"}, {"count", 9}},
               {{"record", "s11"}, {"count", 1}}}}};
  CHECK(TopSample::failed_of(exits) == 3U);
  exits["exits"].push_back({{"record", "others"}, {"count", 10}});
  CHECK(TopSample::failed_of(exits) == 13U);
  exits["exits"][0]["record"] = "?";
  CHECK(TopSample::failed_of(exits).error().message.starts_with("exits[0].record: "));
  CHECK(TopSample::late_of({{"late", {"n1"}}})->size() == 1);
  CHECK(TopSample::late_of(Json::object())->empty());
  CHECK(!TopSample::late_of({{"late", 1}}));
}

TEST_CASE("a line of JSON has the nodes, and the tasks if they are wanted") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 5)}, {"n1"}), 1010);
  Json line = model.json(false);
  CHECK(line["nodes"].size() == 2);
  CHECK(line["nodes"][0]["late"].is_null());
  CHECK(line["nodes"][1]["late"] == 0.0);
  CHECK(line["cpu"] == Catch::Approx(0.5));
  CHECK(!line.contains("tasks"));
  CHECK(model.json(true)["tasks"][0]["pid"] == 100);
}
