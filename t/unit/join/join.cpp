// SPDX-License-Identifier: Apache-2.0
//
// How one shell joins its job, or does not: assemble() on a real loop and over real links, to members that the test
// acts for.
#include "join/join.hpp"
#include "boot/make_resources.hpp"
#include "group_world.hpp"
#include "job_of_nodes.hpp"
#include "join/leaving.hpp"
#include "redirected.hpp"
#include "transport/wire.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

using Codes = std::map<group::Rank, std::optional<int>>;
using Lines = std::vector<std::string>;

// The introduction of `rank`.
std::string introduction(group::World& world, group::Rank rank, const Json& job = nullptr) {
  boot::NodeOffer offer{fmt::format("node{}", rank), value::Idset::range(0, 1), {}};
  Json out{{"address", fmt::format("unix:{}", world.folder.path(fmt::format("s{}", rank)))},
           {"offer", offer.text()}};
  if (!job.is_null()) out["job"] = job;
  return out.dump();
}

Json given(const std::string& jobspec) {
  return {{"options", {"verbose=0"}}, {"input", false}, {"jobspec", {{"name", "job.json"}, {"text", jobspec}}}};
}

const std::string kJobspec = jobspec_of(3, 1, {"true"}, Json::object());

class Joining {
 public:
  // One shell of three, and `others`, which join at once: with the text from `introduce`, unless that is empty.
  using Introduce = std::function<std::string(group::World&, group::Rank)>;
  Joining(group::Rank shell_rank, const std::vector<group::Rank>& others, const Introduce& introduce)
      : rank(shell_rank), world(3), others_(others.size()) {
    boot.way = boot::Way::pmi;
    boot.id = value::JobId(group::kTestJob);
    boot.membership = std::move(world.memberships[rank]);
    for (group::Rank each : others) act_for(each, introduce(world, each));
    process.loop = std::move(world.loop);
    process.children = event::Children::create(*process.loop, {}).value();
    process.signals = Signals::watch(*process.loop).value();
    log.add_sink("test", [this](const LogEntry& entry) {
      logged.push_back(
          fmt::format("{} {}: {}", level_name(entry.level), entry.shell.value_or(rank), entry.message));
    });
    if (rank == 0) leader.jobspec = {"job.json", kJobspec};
  }
  ~Joining() {
    timers.clear();
    for (group::FakeShell& each : world.shells) each.member.reset();
  }

  Result<Assembled> run() { return assemble(process, std::move(boot), std::move(leader), log); }
  int give_up(const Error& why) { return join::give_up(process, rank, why, log); }
  // As main(): the process's exit code after an error.
  int fail() {
    auto assembled = run();
    REQUIRE(!assembled);
    error = assembled.error();
    return give_up(error);
  }
  // The codes with which the others leave; the leader does not wait for that.
  Codes codes_of_others() {
    bool late = false;
    later(group::kPatience, [&late] { late = true; });
    process.loop->run_until([&] { return late || codes_.size() == others_; });
    return codes_;
  }
  void later(event::Seconds delay, std::function<void()> what) {
    timers.push_back(event::Timer::create(*process.loop, std::move(what)).value());
    timers.back().start(delay);
  }
  // Shells 1 and 2 are to be started on node1 and node2 by an agent, which has a host as $0.
  void start_others_by(const std::string& script) {
    boot.way = boot::Way::hosts;
    boot.record.emplace();
    boot.record->job = boot.id;
    boot.record->rank = rank;
    boot.record->size = 3;
    boot.record->hosts = value::Hostlist::parse("node[0-2]").value();
    boot.record->agent = {"sh", "-c", script};
    boot.record->shell = {"nacre-shell"};
  }
  // The launcher's end of its stream.
  UniqueFd launcher() {
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    boot.launcher = std::move(pipe.read);
    return std::move(pipe.write);
  }

  group::Rank rank;
  ShellProcess process;
  group::World world;
  boot::Boot boot;
  LeaderGiven leader;
  std::function<void()> when_linked;  // called once this shell and the first of the others have a link
  Error error;
  Log log;
  Lines logged;

 private:
  void act_for(group::Rank other, const std::string& text) {
    world.start(other);
    group::OverlayDriver& member = *world.shells[other].member;
    group::Group::Callbacks callbacks;
    callbacks.on_exception = [this, other, &member](const group::JobException& raised) {
      if (raised.severity != 0) return linked();
      world.shells[other].exceptions.push_back(raised.message);
      if (world.shells[other].exceptions.size() > 1) return;
      member.sum_with_all(kExitBarrier, 0, [](const Result<std::int64_t>&) {});
      member.max_with_all(kEndBarrier, 0, [](const Result<std::int64_t>&) {});
      member.leave(raised.exit_code.value_or(1), [this, other](std::optional<int> code) {
        codes_[other] = code;
        static_cast<void>(world.folder.file("left", ""));
      });
    };
    member.serve(std::move(callbacks));
    // An exception that it raises comes back from the leader.
    if (other != 0) member.raise({"note", 7, "linked", std::nullopt, other});
    if (other == 0) member.hooks().on_child = [this](group::Rank) { linked(); };
    if (!text.empty()) member.gather("join", text, [](const Result<group::Group::Gathered>&) {});
  }

  void linked() {
    static_cast<void>(world.folder.file("linked", ""));
    if (when_linked) later(event::Seconds::zero(), std::exchange(when_linked, nullptr));
  }

  std::size_t others_;
  Codes codes_;
  std::vector<event::Timer> timers;
};

std::string as_follower(group::World& world, group::Rank rank) { return introduction(world, rank); }

std::string as_any(group::World& world, group::Rank rank) {
  return rank == 0 ? introduction(world, 0, given(kJobspec)) : introduction(world, rank);
}

}  // namespace

TEST_CASE("the leader learns what the nodes offer, and says what the job is") {
  Joining it(0, {1, 2}, as_follower);
  it.leader.options = {"kill-timeout=1"};
  it.leader.has_input = true;
  auto assembled = it.run();
  REQUIRE(assembled);
  CHECK(assembled->identity.id == it.boot.id);
  CHECK(assembled->identity.shell_rank == 0);
  REQUIRE(assembled->identity.resources.nodes.size() == 3);
  CHECK(assembled->identity.resources.nodes[2].hostname == "node2");
  CHECK(assembled->options == Lines{"kill-timeout=1"});
  CHECK(assembled->has_input);
  CHECK(it.process.joined);
  CHECK(!it.process.end.is_ending());
  CHECK(it.logged.empty());
}

TEST_CASE("another shell learns from the leader what the job is") {
  Joining it(1, {0, 2}, as_any);
  auto assembled = it.run();
  REQUIRE(assembled);
  CHECK(assembled->identity.shell_rank == 1);
  CHECK(assembled->identity.spec.command == Lines{"true"});
  CHECK(assembled->options == Lines{"verbose=0"});
  CHECK(!assembled->has_input);
}

TEST_CASE("what is wrong with the job is logged by the leader, and ends it for all") {
  SECTION("there is no jobspec") {
    Joining it(0, {1, 2}, as_follower);
    it.leader.jobspec.reset();
    CHECK(it.fail() == 1);
    CHECK(it.logged == Lines{"fatal 0: the leader was given no jobspec: give shell 0 --jobspec=FILE"});
    CHECK(it.codes_of_others() == Codes{{1, 1}, {2, 1}});
  }
  SECTION("R is of other nodes") {
    Joining it(0, {1, 2}, as_follower);
    it.leader.resources = {"R.json", resources_of(2, 1)};
    CHECK(it.fail() == 1);
    CHECK(it.logged ==
          Lines{"fatal 0: R.json: R has 2 nodes, and the job has 3 shells: start one shell on each node of R"});
    CHECK(it.codes_of_others() == Codes{{1, 1}, {2, 1}});
  }
  SECTION("the jobspec is none") {
    Joining it(0, {1, 2}, as_follower);
    it.leader.jobspec->text = "{";
    CHECK(it.fail() == 1);
    REQUIRE(it.logged.size() == 1);
    CHECK_THAT(it.logged[0], Catch::Matchers::StartsWith("fatal 0: job.json: "));
  }
  SECTION("and not by another shell") {
    Joining it(1, {0, 2}, [](group::World& world, group::Rank rank) {
      return rank == 0 ? introduction(world, 0, given("{")) : introduction(world, rank);
    });
    auto assembled = it.run();
    REQUIRE(!assembled);
    CHECK(assembled.error().is_logged);
    CHECK_THAT(assembled.error().message, Catch::Matchers::StartsWith("job.json: "));
  }
}

TEST_CASE("an introduction that cannot be read is refused, with the shell named") {
  Joining it(0, {1, 2}, [](group::World& world, group::Rank rank) {
    return rank == 2 ? "{\"address\": 7}" : introduction(world, rank);
  });
  CHECK(it.fail() == 1);
  REQUIRE(it.logged.size() == 1);
  CHECK_THAT(it.logged[0], Catch::Matchers::StartsWith("fatal 0: shell 2: address: "));
}

TEST_CASE("a signal while the shells join ends the job for those that have joined, and waits for no other") {
  for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    for (group::Rank rank : {0, 1}) {
      INFO(signum << " to shell " << rank);
      Joining it(rank, {rank == 0 ? 1U : 0U}, as_any);  // 2 never comes
      auto before = std::chrono::steady_clock::now();
      it.when_linked = [&] { it.process.signals->received(signum, Signals::From::process); };
      CHECK(it.fail() == 128 + signum);
      CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(20));
      CHECK(it.error.is_logged);
      CHECK(it.process.end.cause()->shell == rank);
      CHECK(!it.process.joined);
      if (rank == 0) {
        CHECK(it.codes_of_others() == Codes{{1, 128 + signum}});
        CHECK(it.logged.size() == 1);
      } else {
        CHECK(it.logged.empty());
      }
    }
  }
}

TEST_CASE("a signal before the shell has begun to join is not lost") {
  Joining it(0, {1}, as_follower);
  it.process.signals->received(SIGTERM, Signals::From::process);
  CHECK(it.fail() == 143);
}

TEST_CASE("another shell's failure while the shells join is the job's") {
  group::Rank rank = GENERATE(0, 1);
  Joining it(rank, {rank == 0 ? 1U : 0U}, as_any);
  group::Rank other = rank == 0 ? 1 : 0;
  it.when_linked = [&] { it.world.shells[other].member->raise({"exec", 0, "it failed", 9, other, true}); };
  CHECK(it.fail() == 9);
  CHECK(it.error.message == "it failed");
  CHECK(it.error.is_logged);
  if (rank == 0) CHECK(it.logged == Lines{"fatal 1: it failed"});
}

TEST_CASE("the launcher's end while the shells join") {
  SECTION("ends the job where it is the leader's") {
    Joining it(0, {1}, as_follower);
    UniqueFd launcher = it.launcher();
    it.when_linked = [&] { launcher.reset(); };
    CHECK(it.fail() == 1);
    CHECK(it.codes_of_others() == Codes{{1, 1}});
    CHECK(it.logged.size() == 1);
  }
  SECTION("ends another shell, which is not of the job then") {
    Joining it(1, {0}, as_any);
    UniqueFd launcher = it.launcher();
    it.when_linked = [&] { launcher.reset(); };
    CHECK(it.fail() == 1);
    CHECK(it.error.message == "the process that started this shell has gone");
    CHECK(!it.error.is_logged);
    CHECK(!it.process.group);
  }
}

TEST_CASE("the launcher's signals while the shells join end the job, those that are for tasks do not") {
  Joining it(0, {1}, as_follower);
  UniqueFd launcher = it.launcher();
  it.when_linked = [&] {
    std::string records;
    for (const char* frame : {R"({"signal": 10})", R"({"signal": 1})"}) {
      transport::append_frame_head(records, std::string(frame).size());
      records += frame;
    }
    REQUIRE(::write(launcher.get(), records.data(), records.size()) == static_cast<ssize_t>(records.size()));
  };
  CHECK(it.fail() == 129);
}

TEST_CASE("a launcher that ends the job because of a signal gives it that code, though it is gone then") {
  Joining it(0, {1}, as_follower);
  UniqueFd launcher = it.launcher();
  it.when_linked = [&] {
    const std::string frame = R"({"end":15})";
    std::string record;
    transport::append_frame_head(record, frame.size());
    record += frame;
    REQUIRE(::write(launcher.get(), record.data(), record.size()) == static_cast<ssize_t>(record.size()));
    launcher.reset();
  };
  CHECK(it.fail() == 143);
}

TEST_CASE("a shell that cannot be started is named, and the job ends without it") {
  Joining it(0, {1}, as_follower);
  it.start_others_by(
      fmt::format("if [ $0 = node2 ]; then echo no route >&2; exit 3; fi; until [ -e {} ]; do sleep 0.01; done",
                  it.world.folder.path("left")));
  auto assembled = it.run();
  REQUIRE(!assembled);
  CHECK(assembled.error().message == "shell 2 on node2 did not join the job");
  CHECK(it.process.joined);
  CHECK(it.give_up(assembled.error()) == 1);
  REQUIRE(it.logged.size() == 2);
  CHECK_THAT(it.logged[0], Catch::Matchers::StartsWith("error 0: shell 2 on node2 was not started: ") &&
                               Catch::Matchers::ContainsSubstring("no route"));
  CHECK(it.logged[1] == "fatal 0: shell 2 on node2 did not join the job");
  CHECK(it.codes_of_others() == Codes{{1, 1}});
  CHECK(it.process.launcher->running() == 0);
}

TEST_CASE("an agent that a signal has ended ends the job with it") {
  Joining it(0, {1}, as_follower);
  it.start_others_by(fmt::format(
      "until [ -e {} ]; do sleep 0.01; done; [ $0 = node2 ] && kill -INT $$; until [ -e {} ]; do sleep 0.01; done",
      it.world.folder.path("linked"), it.world.folder.path("left")));
  CHECK(it.fail() == 130);
  CHECK(it.process.end.cause()->message == "interrupted");
  CHECK(it.codes_of_others() == Codes{{1, 130}});
}

TEST_CASE("while the shells join, the leader shows on a terminal which of them are missing") {
  Pipe pipe = make_pipe(O_CLOEXEC | O_NONBLOCK).value();
  Joining it(0, {1}, as_follower);
  it.start_others_by("exec sleep 1.5");
  it.boot.way = boot::Way::pmi;  // they are started by others
  it.boot.record->terminal = true;
  it.later(event::Seconds(1.3), [&] { it.process.signals->received(SIGTERM, Signals::From::process); });
  {
    Redirected error(STDERR_FILENO, pipe.write.get());
    CHECK(it.fail() == 143);
  }
  std::string shown(4096, '\0');
  ssize_t count = ::read(pipe.read.get(), shown.data(), shown.size());
  shown.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  const std::string cleared = "\r\033[K";
  CHECK_THAT(shown, Catch::Matchers::StartsWith(cleared + "nacre launch: ") &&
                        Catch::Matchers::EndsWith(" s: waiting for shell 2 on node2" + cleared));
}

TEST_CASE("the only shell of a job needs nobody to join") {
  Joining it(0, {}, as_any);
  it.boot.membership.reset();
  SECTION("it has its node's cores") {
    auto assembled = it.run();
    REQUIRE(assembled);
    CHECK(assembled->identity.resources.nodes.size() == 1);
    CHECK(assembled->identity.id == it.boot.id);
  }
  SECTION("what is wrong is logged") {
    it.leader.resources = {"R.json", resources_of(2, 1)};
    CHECK(it.fail() == 1);
    CHECK(it.logged ==
          Lines{"fatal 0: R.json: R has 2 nodes, and the job has 1 shells: start one shell on each node of R"});
  }
}

namespace {

// What is written to standard error until `missing` has been called `times` times.
std::string shown_for(int times, const JoinProgress::Missing& missing) {
  Pipe pipe = make_pipe(O_CLOEXEC | O_NONBLOCK).value();
  auto loop = event::Loop::create().value();
  {
    Redirected error(STDERR_FILENO, pipe.write.get());
    auto progress = JoinProgress::show(*loop, "nacre launch", [&] {
                      --times;
                      return missing();
                    }).value();
    // The line by itself does not keep the loop running.
    auto timer = event::Timer::create(*loop, [] {}).value();
    timer.start(event::Seconds(60));
    loop->poll();
    loop->run_until([&] { return times <= 0; });
  }
  std::array<char, 4096> bytes{};
  ssize_t count = ::read(pipe.read.get(), bytes.data(), bytes.size());
  return {bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

}  // namespace

TEST_CASE("nothing is shown of a join that takes less than a second") {
  CHECK(shown_for(0, [] { return std::vector<std::string>{"shell 1"}; }).empty());
}

TEST_CASE("the line says each second how long the shells have been joining, and goes") {
  std::vector<std::string> missing{"shell 1 on a", "shell 2 on b", "shell 3 on c", "shell 4 on d", "shell 5 on e"};
  std::string shown = shown_for(2, [&] {
    auto now = missing;
    missing.resize(missing.size() == 5 ? 1 : 0);
    return now;
  });
  CHECK_THAT(shown, Catch::Matchers::StartsWith(
                        "\r\033[Knacre launch: 1 s: waiting for shell 1 on a, shell 2 on b, shell 3 on c and 2 "
                        "more\r\033[Knacre launch: 2 s: waiting for shell 1 on a"));
  CHECK_THAT(shown, Catch::Matchers::EndsWith("shell 1 on a\r\033[K"));
}

TEST_CASE("where it is not known who is missing, the line says so") {
  std::string shown = shown_for(1, [] { return std::vector<std::string>(); });
  CHECK_THAT(shown, Catch::Matchers::StartsWith("\r\033[Knacre launch: 1 s: waiting for others"));
}
