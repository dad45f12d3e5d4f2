// SPDX-License-Identifier: Apache-2.0
#include "join/leaving.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "fake_group.hpp"
#include "group/alone.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

// What a shell that leaves does with its last link.
class LeavingGroup final : public FakeGroup {
 public:
  LeavingGroup(event::Loop& loop, group::Rank rank)
      : FakeGroup(loop, rank), wake_(event::Timer::create(loop, [] {}).value()) {}

  // These in turn; then an empty one.
  std::deque<std::optional<UniqueFd>> last_links;
  std::optional<UniqueFd> take_last_link() override {
    if (last_links.empty()) return UniqueFd();
    auto next = std::move(last_links.front());
    last_links.pop_front();
    if (!next) wake_.start(event::Seconds::zero());
    return next;
  }
  void stay() override { acts.emplace_back("stay"); }

 private:
  event::Timer wake_;
};

struct Leaver {
  explicit Leaver(group::Rank shell_rank) : rank(shell_rank) {
    process.loop = event::Loop::create().value();
    auto fake = std::make_unique<LeavingGroup>(*process.loop, rank);
    group = fake.get();
    process.group = std::move(fake);
    log.set_level(Level::debug);
    log.add_sink("test", [this](const LogEntry& entry) {
      logged.push_back(
          fmt::format("{} {}: {}", level_name(entry.level), entry.shell.value_or(rank), entry.message));
    });
  }
  int give_up(const Error& why) { return join::give_up(process, rank, why, log); }

  group::Rank rank;
  ShellProcess process;
  LeavingGroup* group = nullptr;
  Log log;
  std::vector<std::string> logged;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a shell leaves with the code that the leader has decided") {
  Leaver it(1);
  it.process.joined = true;
  SECTION("learnt") {
    it.group->decided = 42;
    CHECK(leave(it.process, 3) == 42);
  }
  SECTION("not learnt") { CHECK(leave(it.process, 3) == std::nullopt); }
  CHECK(it.process.left);
  CHECK(it.process.group);
  CHECK(it.group->acts == Lines{"leave 3"});
}

TEST_CASE("the last link of a shell that leaves before the others is left open, once all that was sent is out") {
  Leaver it(1);
  it.process.joined = true;
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  int kept = pipe.write.get();
  it.group->last_links.emplace_back(std::nullopt);
  it.group->last_links.emplace_back(std::move(pipe.write));
  CHECK(leave(it.process, 3) == std::nullopt);
  CHECK(it.group->last_links.empty());
  it.process.group.reset();
  CHECK(::fcntl(kept, F_GETFD) != -1);
  CHECK(::close(kept) == 0);
}

TEST_CASE("a shell that leaves before the others, and holds agents, reports that it stays, until they have ended") {
  Leaver it(1);
  it.process.joined = true;
  it.process.children = event::Children::create(*it.process.loop, {}).value();
  launch::Launcher::Options options;
  options.shell = {"/bin/sleep", "0.2"};
  it.process.launcher = std::make_unique<launch::Launcher>(*it.process.loop, *it.process.children,
                                                           std::move(options), launch::Launcher::Callbacks());
  it.process.launcher->start(2, "localhost", "");
  it.process.launcher->joined(2);
  CHECK(leave(it.process, 3) == std::nullopt);
  CHECK(it.group->acts == Lines{"leave 3", "stay"});
  CHECK(it.process.launcher->running() == 0);
}

TEST_CASE(
    "of a job that has not been joined by all, those that are absent are waited for no more, and the others not "
    "long") {
  Leaver it(0);
  SECTION("the others end") {
    CHECK(leave(it.process, 3) == 3);
    CHECK(it.group->acts == Lines{"give up absent", "leave 3"});
    CHECK(it.process.group);
  }
  SECTION("they do not") {
    it.group->answers_leave = false;
    auto before = std::chrono::steady_clock::now();
    CHECK(leave(it.process, 3) == std::nullopt);
    CHECK(std::chrono::steady_clock::now() - before >= std::chrono::seconds(2));
    CHECK(!it.process.group);
  }
}

TEST_CASE("a shell that does not become a Shell sends why, passes the barriers of those that do, and leaves") {
  group::Rank rank = GENERATE(0, 1);
  Leaver it(rank);
  it.process.joined = true;
  if (rank != 0) it.group->decided = 1;
  CHECK(it.give_up({EINVAL, "a bad option"}) == 1);
  CHECK(it.group->acts ==
        Lines{"raise shell 0 1: a bad option", "close bulk", "enter exit", "enter end", "leave 1"});
  CHECK(!it.group->serving());
  CHECK(it.process.end.is_ending());
  CHECK(it.logged == Lines{fmt::format("{} {}: a bad option", rank == 0 ? "fatal" : "debug", rank)});
}

TEST_CASE("the only shell of a job that gives up logs why") {
  Leaver it(0);
  it.process.group = std::make_unique<group::Alone>(0);
  CHECK(it.give_up({EINVAL, "a bad option"}) == 1);
  CHECK(it.logged == Lines{"fatal 0: a bad option"});
}

TEST_CASE("what another shell raises alike is not raised again") {
  Leaver it(1);
  it.process.joined = true;
  it.group->decided = 1;
  it.group->at_barrier["exit"] = [&] { it.group->raise_elsewhere({"exec", 0, "a bad option", 1, 0, true}); };
  CHECK(it.give_up({EINVAL, "a bad option", true}) == 1);
  CHECK(it.group->acts == Lines{"close bulk", "enter exit", "enter end", "leave 1"});
}

TEST_CASE("a shell gives up with the code of what has ended the job before") {
  Leaver it(0);
  it.process.joined = true;
  it.process.end.ordered({"ended by SIGTERM", 143, 1});
  CHECK(it.give_up({ECANCELED, "ended by SIGTERM", true}) == 143);
  CHECK(it.group->raised().empty());
  CHECK(it.group->acts.back() == "leave 143");
  CHECK(it.logged.empty());
}

TEST_CASE("a shell that gives up before all have joined does not wait at a barrier that they will not come to") {
  group::Rank rank = GENERATE(0, 1);
  Leaver it(rank);
  it.group->never_entered = {"exit", "end"};
  if (rank != 0) it.group->decided = 1;
  CHECK(it.give_up({EINVAL, "why"}) == 1);
  Lines expected{"raise shell 0 1: why", "close bulk", "enter exit", "enter end", "give up absent", "leave 1"};
  if (rank == 0) expected = {"raise shell 0 1: why", "close bulk", "give up absent", "leave 1"};
  CHECK(it.group->acts == expected);
}

TEST_CASE("a shell that is cut off while it gives up has its own code") {
  Leaver it(1);
  it.process.joined = true;
  it.group->never_entered = {"end"};
  it.group->at_barrier["end"] = [&] { it.group->cut_off("the leader has gone"); };
  CHECK(it.give_up({EINVAL, "why"}) == 1);
  CHECK(it.process.end.is_cut_off());
}

TEST_CASE("a shell without a group gives up at once") {
  Leaver it(0);
  it.process.group.reset();
  CHECK(it.give_up({EINVAL, "why"}) == 1);
  CHECK(it.logged.empty());
}
