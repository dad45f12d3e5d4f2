// SPDX-License-Identifier: Apache-2.0
//
// Several shells of a job in one process, on one loop: real links, and what each shell is told.
#pragma once

#include "event/loop.hpp"
#include "exits/record.hpp"
#include "folder.hpp"
#include "group/overlay_driver.hpp"

namespace nacre::group {

using kit::TemporaryFolder;
inline constexpr std::uint64_t kTestJob = 4711;
inline constexpr event::Seconds kPatience{60};

inline transport::Secret secret_of(char letter) {
  return transport::Secret::from_hex(std::string(2 * transport::Secret::kSize, letter)).value();
}

// Ends the connections that this socket has accepted, and returns their number.
int break_links_to(const std::string& path);

struct FakeShell {
  std::unique_ptr<OverlayDriver> member;
  std::vector<std::string> exceptions;  // "ORIGIN TYPE SEVERITY CODE: MESSAGE"
  std::vector<std::string> signals;     // "NUMBER TASKS"
  std::vector<std::string> orders;      // "NUMBER RANKS COMMAND"
  std::vector<Rank> lost;
  std::vector<std::string> shrinks;  // "left SHELLS", "gone SHELLS unconfirmed SHELLS", "leave"
  value::Idset started;
  exits::Outcomes ended;
  std::string cut_off;
  std::vector<std::string> log;  // "LEVEL: MESSAGE"
  Log lines;
  bool gone = false;

  [[nodiscard]] bool has_logged(std::string_view part) const {
    return std::any_of(log.begin(), log.end(),
                       [&](const std::string& line) { return line.find(part) != line.npos; });
  }
};

enum class Over { tcp, local };

struct World {
  explicit World(std::uint32_t shell_count, Over over = Over::local, overlay::OverlayOptions limits = {})
      : size(shell_count), bounds(std::move(limits)), shells(shell_count) {
    for (Rank rank = 0; rank < size; ++rank) memberships.push_back(prepare(rank, over));
    for (const Membership& each : memberships) addresses.push_back(each.address);
    for (Membership& each : memberships) {
      for (Rank rank = 0; rank < size; ++rank) REQUIRE(each.directory.set(rank, addresses[rank]));
    }
  }

  Membership prepare(Rank rank, Over over);
  // Starts a shell that is to join once a grow waits for it. `leader`: set in a job that may change its leader.
  FakeShell& start_newcomer(Over over = Over::local, std::optional<Rank> leader = std::nullopt) {
    auto rank = static_cast<Rank>(shells.size());
    memberships.push_back(prepare(rank, over));
    memberships.back().is_newcomer = true;
    memberships.back().leader = leader;
    for (Rank each = 0; each < size; ++each) REQUIRE(memberships.back().directory.set(each, addresses[each]));
    shells.emplace_back();
    start(rank);
    return shells.back();
  }
  void start(Rank rank) {
    FakeShell& shell = shells[rank];
    shell.lines.set_level(Level::trace);
    shell.lines.add_sink("test", [&shell](const LogEntry& entry) {
      shell.log.push_back(fmt::format("{}: {}", level_name(entry.level), entry.message));
    });
    shell.member = OverlayDriver::create(*loop, std::move(memberships[rank]), shell.lines, bounds).value();
    shell.member->serve(callbacks(shell));
  }
  void start_all() {
    for (Rank rank = 0; rank < size; ++rank) start(rank);
  }

  static Group::Callbacks callbacks(FakeShell& shell);
  [[nodiscard]] std::string story() const;  // what each shell has logged
  // Fails the test if done() does not become true, with what each shell has logged.
  void run_until(const std::function<bool()>& done) const {
    bool late = false;
    auto patience = event::Timer::create(*loop, [&] { late = true; }).value();
    patience.start(kPatience);
    loop->run_until([&] { return late || done(); });
    if (late) FAIL("not within " << kPatience.count() << " s" << story());
  }
  template <typename Do>
  void each(Do what) {
    for (FakeShell& shell : shells) {
      if (shell.member) what(shell);
    }
  }
  bool all(const std::function<bool(const FakeShell&)>& is) const {
    return std::all_of(shells.begin(), shells.end(),
                       [&](const FakeShell& shell) { return !shell.member || is(shell); });
  }
  void pass(const std::string& barrier) {
    std::size_t passed = 0;
    std::size_t here = 0;
    each([&](FakeShell& shell) {
      ++here;
      shell.member->enter(barrier, [&](Result<void> result) {
        CHECK(result);
        ++passed;
      });
    });
    run_until([&] { return passed == here; });
  }
  void leave(std::optional<int> expected = 7) {
    each([=](FakeShell& shell) {
      shell.member->leave(7, [&shell, expected](std::optional<int> code) {
        CHECK(code == expected);  // the leader's
        shell.gone = true;
      });
    });
    run_until([this] { return all([](const FakeShell& shell) { return shell.gone; }); });
  }

  TemporaryFolder folder;
  std::uint32_t size;
  std::uint32_t arity = 2;
  overlay::OverlayOptions bounds;
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::vector<Membership> memberships;
  std::vector<std::string> addresses;  // of the shells of the job's start
  std::deque<FakeShell> shells;
};

}  // namespace nacre::group
