// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocated_bytes.hpp"
#include "base/file.hpp"
#include "exits/notice.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "notice_reader.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using value::Idset;
using value::WaitStatus;

namespace {

// Stands in for the plugin `output`.
class FakeOutput final : public plugin::TaskOutput {
 public:
  Idset come_out() override {
    ++calls;
    return Idset::parse(left).value();
  }
  void follow(plugin::OutputFollower* /*follower*/) override {}
  void redirect(plugin::OutputFile* /*to*/) override {}
  std::optional<Tail> tail(std::uint32_t /*rank*/) override { return {}; }

  std::string left;
  int calls = 0;
};

struct Notify {
  explicit Notify(std::uint32_t tasks = 4) : host(tasks) {
    std::signal(SIGPIPE, SIG_IGN);
    host.offer_output(&output);
    host.stack().push(plugins::make_exit_notify(host));
    host.start_tasks();
  }

  // Sets the option as "-o exit-notify=..." does.
  void option(const std::string& text) { REQUIRE(host.options().set_from_argument(text)); }
  void start() {
    REQUIRE(host.call("shell.init"));
    REQUIRE(host.call("shell.post-init"));
  }
  std::string init_error() {
    auto called = host.call("shell.init");
    return called ? "" : called.error().message;
  }
  void ended(const std::string& ranks, const std::string& record, bool come_out = true) {
    if (come_out) output.left = (Idset::parse(output.left).value() | Idset::parse(ranks).value()).str();
    plugin::Call call("job.tasks-exited");
    call.in.update({{"ranks", ranks}, {"record", record}});
    REQUIRE(host.stack().call(call));
  }
  void end_job(int code) { host.ended({{"exit", {{"code", code}, {"policy", "max"}, {"main", 0}}}}); }
  [[nodiscard]] std::string path() const { return folder.path("notices"); }
  // What has been written to path().
  [[nodiscard]] std::vector<std::string> lines() const {
    std::string text = read_file(path()).value();
    std::vector<std::string> out;
    for (std::string_view each : split(text, '\n')) {
      if (!each.empty()) out.emplace_back(each);
    }
    return out;
  }
  [[nodiscard]] std::vector<std::string> warnings() const {
    std::vector<std::string> out;
    for (const std::string& each : host.logged) {
      if (each.starts_with("warn")) out.push_back(each);
    }
    return out;
  }
  bool serve(const std::function<bool()>& done) { return host.serve(done); }

  kit::FakeHost host;
  FakeOutput output;
  kit::TemporaryFolder folder;
};

kit::NoticeMap map_of(const std::vector<std::string>& lines) {
  kit::NoticeMap map;
  for (const std::string& each : lines) REQUIRE(map.take(kit::decode_notice(each).value()));
  return map;
}

std::string read_now(int fd) {
  std::string out;
  std::array<char, 65536> buffer;
  for (ssize_t got = 1; got > 0;) {
    got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0) out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return out;
}

}  // namespace

TEST_CASE("a failure is written to the file within 0.2 s, and the end at once") {
  Notify notify;
  notify.option("exit-notify=" + notify.path());
  notify.start();
  notify.ended("0", "x0");
  CHECK_FALSE(notify.host.next_timer());
  notify.ended("2", "s11");
  REQUIRE(notify.serve([&] { return !notify.lines().empty(); }));
  CHECK(notify.lines() ==
        std::vector<std::string>{R"({"seq":1,"n":4,"done":2,"d":"r","x":{"s11":"2","x0":"0"},"end":0,"first":2})"});
  notify.ended("1,3", "c/s15");
  notify.end_job(139);
  CHECK(map_of(notify.lines()).ended());
  CHECK(notify.host.holds.empty());
  CHECK(notify.warnings().empty());
}

TEST_CASE("where all succeed there is exactly one line") {
  Notify notify;
  notify.option("exit-notify=" + notify.path());
  notify.start();
  notify.ended("0-1", "x0");
  notify.ended("2-3", "x0");
  notify.end_job(0);
  CHECK(notify.lines().size() == 1);
  CHECK(notify.output.calls == 0);
}

TEST_CASE("a failure waits for its output") {
  Notify notify;
  notify.option("exit-notify=" + notify.path());
  notify.start();
  notify.ended("2", "x3", false);
  notify.ended("1", "x3");
  REQUIRE(notify.serve([&] { return !notify.lines().empty(); }));
  CHECK(map_of(notify.lines()).ranks() == Idset::range(1, 1));
  notify.output.left = "1-2";
  REQUIRE(notify.serve([&] { return notify.lines().size() == 2; }));
  CHECK(map_of(notify.lines()).ranks() == Idset::range(1, 2));
}

TEST_CASE("the last message has the records of the job's summary, where nothing else was reported") {
  Notify notify;
  notify.option("exit-notify=" + notify.path());
  notify.start();
  notify.ended("1", "f127");
  notify.host.ended(
      {{"exit", {{"code", 127}, {"policy", "max"}, {"main", 0}}}, {"tasks", {{"f127", "0-2"}, {"c/s15", "3"}}}});
  kit::NoticeMap map = map_of(notify.lines());
  CHECK(map.ended());
  CHECK(map.records().at("f127").str() == "0-2");
  CHECK(map.records().at("c/s15").str() == "3");
}

TEST_CASE("what comes out as the job ends is not open") {
  Notify notify;
  notify.option("exit-notify=" + notify.path());
  notify.start();
  notify.ended("1", "x3");
  notify.ended("2", "x3", false);
  notify.end_job(3);
  REQUIRE(notify.lines().size() == 1);
  CHECK(notify.lines()[0].find(R"("open":"2")") != std::string::npos);
}

TEST_CASE("a failed task of a lost shell does not wait") {
  Notify notify;
  notify.option("exit-notify=" + notify.path());
  notify.start();
  notify.ended("2", "x3", false);
  plugin::Call call("shell.lost");
  call.in.update({{"shell_rank", 0}, {"severity", 0}});
  REQUIRE(notify.host.stack().call(call));
  REQUIRE(notify.serve([&] { return !notify.lines().empty(); }));
  CHECK(notify.lines()[0].find(R"("cut":"2")") != std::string::npos);
}

TEST_CASE("a threshold and a place stand together, in either order") {
  for (bool swap : {false, true}) {
    Notify notify;
    std::string place = "exit-notify=" + notify.path();
    std::string threshold = "exit-notify.threshold=75%";
    notify.option(swap ? place : threshold);
    notify.option(swap ? threshold : place);
    notify.start();
    notify.ended("0-1", "x3");
    REQUIRE(notify.serve([wait = 20]() mutable { return --wait < 0; }));
    CHECK(notify.output.calls > 0);
    CHECK(notify.lines().empty());
    notify.ended("2", "x3");
    REQUIRE(notify.serve([&] { return !notify.lines().empty(); }));
    CHECK(map_of(notify.lines()).ranks() == Idset::range(0, 2));
  }
}

TEST_CASE("exit-notify is a file, a descriptor, off, or an object") {
  struct Case {
    Json option;
    const char* error;
  };
  const Case cases[] = {
      {nullptr, ""},
      {"off", ""},
      {false, ""},
      {{{"to", "off"}, {"threshold", 3}}, ""},
      {true, "exit-notify: expected a file, the number of a descriptor, or off, got true"},
      {"", "exit-notify: expected a file"},
      {1.5, "exit-notify: expected a file"},
      {Json::array(), "exit-notify: expected a file"},
      {Json::object(), "exit-notify: to is missing"},
      {{{"threshold", "5%"}}, "exit-notify: to is missing"},
      {{{"to", "a"}, {"path", "b"}}, "exit-notify.path: exit-notify.to is given too"},
      {{{"path", 3}}, "exit-notify.path: expected a file"},
      {{{"fd", "a"}}, "exit-notify.fd: expected the number of a descriptor"},
      {{{"to", "a"}, {"mode", "b"}}, "mode"},
      {{{"to", "a"}, {"threshold", "half"}}, "exit-notify.threshold: expected a number of tasks, or 0% to 100%"},
      {{{"to", "a"}, {"threshold", -1}}, "exit-notify.threshold: expected a number of tasks, or 0% to 100%"},
      {-1, "exit-notify: expected"},
      {1000, "exit-notify: descriptor 1000 was not open when the shell was started"},
  };
  for (const Case& each : cases) {
    INFO(each.option.dump());
    Notify notify;
    if (!each.option.is_null()) notify.host.options().set("exit-notify", each.option);
    std::string error = notify.init_error();
    INFO(error);
    CHECK(error.empty() == (*each.error == '\0'));
    CHECK(error.find(each.error) != std::string::npos);
  }
}

TEST_CASE("a descriptor has to be open for writing, and is not one of the shell's own") {
  Pipe own = make_pipe(O_CLOEXEC).value();
  Pipe given = make_pipe(0).value();
  auto error_of = [](int fd) {
    Notify notify;
    notify.option("exit-notify=" + std::to_string(fd));
    return notify.init_error();
  };
  CHECK(error_of(own.write.get()).find("was not open when the shell was started") != std::string::npos);
  CHECK(error_of(given.read.get()).find("is not open for writing") != std::string::npos);
  CHECK(error_of(given.write.get()).empty());
  CHECK((::fcntl(given.write.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a file that cannot be made is refused before the tasks start") {
  Notify notify;
  notify.option("exit-notify=/no/such/directory/file");
  REQUIRE(notify.host.call("shell.init"));
  auto called = notify.host.call("shell.post-init");
  REQUIRE_FALSE(called);
  CHECK(called.error().message ==
        "plugin 'exit-notify': shell.post-init: exit-notify: /no/such/directory/file: No such file or directory");
}

TEST_CASE("a file that cannot be written is one warning") {
  Notify notify;
  notify.option("exit-notify=/dev/full");
  notify.start();
  notify.ended("0-1", "x3");
  notify.host.run_loop();
  notify.ended("2", "x4");
  notify.host.run_loop();
  notify.end_job(4);
  REQUIRE(notify.warnings().size() == 1);
  CHECK(notify.warnings()[0].find("/dev/full") != std::string::npos);
  CHECK(notify.host.holds.empty());
}

TEST_CASE("a reader that has gone is one warning") {
  Notify notify;
  Pipe pipe = make_pipe(0).value();
  notify.option("exit-notify=" + std::to_string(pipe.write.release()));
  notify.start();
  pipe.read.reset();
  notify.ended("0-1", "x3");
  notify.host.run_loop();
  notify.end_job(3);
  CHECK(notify.warnings() == std::vector<std::string>{notify.warnings().at(0)});
  CHECK(notify.warnings()[0].find("Broken pipe: no more notices are written there") != std::string::npos);
}

TEST_CASE("a reader that stops while 10,000 tasks end loses nothing, and costs less than 1 MiB") {
  constexpr std::uint32_t kTasks = 10000;
  constexpr std::size_t kMost = std::size_t{1} << 20;
  Notify notify(kTasks);
  Pipe pipe = make_pipe(0).value();
  ::fcntl(pipe.write.get(), F_SETPIPE_SZ, 4096);
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  notify.option("exit-notify=" + std::to_string(pipe.write.release()));
  notify.start();
  std::size_t before = kit::allocated_bytes();
  for (std::uint32_t rank = 0; rank < kTasks; ++rank) {
    std::string record = "x" + std::to_string(rank * 7919 % 256);
    plugin::Call call("job.tasks-exited");
    call.in.update({{"ranks", std::to_string(rank)}, {"record", record}});
    REQUIRE(notify.host.stack().call(call));
    if (rank % 2000 == 0) notify.serve([wait = 40]() mutable { return --wait < 0; });
  }
  CHECK(kit::allocated_bytes() > before);
  CHECK(kit::allocated_bytes() < before + kMost);
  notify.output.left = "0-9999";
  notify.end_job(255);
  CHECK(kit::allocated_bytes() < before + kMost);
  CHECK(notify.host.holds["exit-notify"] == 1);
  std::string text;
  REQUIRE(notify.serve([&] {
    text += read_now(pipe.read.get());
    return notify.host.holds.empty();
  }));
  text += read_now(pipe.read.get());
  std::vector<std::string> lines;
  for (std::string_view each : split(text, '\n')) {
    if (!each.empty()) lines.emplace_back(each);
  }
  kit::NoticeMap map = map_of(lines);
  CHECK(map.ended());
  CHECK(map.ranks() == Idset::range(0, kTasks - 1));
  CHECK(map.records().size() == 256);
  CHECK(notify.warnings().empty());
}

TEST_CASE("at the end a reader that does not read is waited for, for 3 s") {
  Notify notify;
  REQUIRE(::mkfifo(notify.path().c_str(), 0600) == 0);
  notify.option("exit-notify=" + notify.path());
  notify.start();
  notify.end_job(0);
  CHECK(notify.host.holds["exit-notify"] == 1);
  SECTION("and is named") {
    REQUIRE(notify.serve([&] { return notify.host.holds.empty(); }));
    CHECK(notify.warnings() ==
          std::vector<std::string>{
              "warn exit-notify: " + notify.path() +
              ": nobody has opened it within 3 s of the job's end: no more notices are written there"});
  }
  SECTION("and gets what there is if it comes in time") {
    UniqueFd reader(::open(notify.path().c_str(), O_RDONLY | O_NONBLOCK));
    REQUIRE(notify.serve([&] { return notify.host.holds.empty(); }));
    CHECK(read_now(reader.get()).find(R"("end":1)") != std::string::npos);
    CHECK(notify.warnings().empty());
  }
}
