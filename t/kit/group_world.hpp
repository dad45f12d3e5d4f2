// SPDX-License-Identifier: Apache-2.0
//
// Several shells of a job in one process, on one loop: real links, and what each shell is told.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "base/log.hpp"
#include "event/loop.hpp"
#include "exits/outcomes.hpp"
#include "folder.hpp"
#include "group/overlay_driver.hpp"

namespace nacre::group {

using kit::Folder;
inline constexpr std::uint64_t kTestJob = 4711;

inline transport::Secret secret_of(char letter) {
  return transport::Secret::from_hex(std::string(2 * transport::Secret::kSize, letter)).value();
}

struct Shell {
  std::unique_ptr<OverlayDriver> member;
  std::vector<std::string> exceptions;  // "ORIGIN TYPE SEVERITY CODE: MESSAGE"
  std::vector<std::string> signals;     // "NUMBER TASKS"
  std::vector<Rank> lost;
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
  explicit World(std::uint32_t shell_count, Over over = Over::local, overlay::Options limits = {})
      : size(shell_count), bounds(std::move(limits)), shells(shell_count) {
    for (Rank rank = 0; rank < size; ++rank) memberships.push_back(prepare(rank, over));
    for (Membership& each : memberships) {
      for (Rank rank = 0; rank < size; ++rank) REQUIRE(each.directory.set(rank, memberships[rank].address));
    }
  }

  Membership prepare(Rank rank, Over over) {
    std::vector<transport::BoundSocket> sockets;
    std::string address;
    if (over == Over::tcp) {
      sockets.push_back(transport::BoundSocket::tcp("127.0.0.1", 0).value());
      address = fmt::format("127.0.0.1:{}", sockets.back().port());
    } else {
      sockets.push_back(transport::BoundSocket::local(folder.path(fmt::format("s{}", rank))).value());
      address = "unix:" + sockets.back().path();
    }
    return {"1.2.3",      value::JobId(kTestJob), rank,    size, arity, secret_of('a'),
            std::nullopt, std::move(sockets),     address, {}};
  }

  void start(Rank rank) {
    Shell& shell = shells[rank];
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

  static Group::Callbacks callbacks(Shell& shell) {
    Group::Callbacks out;
    out.on_exception = [&shell](const Exception& e) {
      shell.exceptions.push_back(
          fmt::format("{} {} {} {}: {}", e.origin, e.type, e.severity, e.exit_code.value_or(-1), e.message));
    };
    out.on_signal = [&shell](int signum, const Targets& tasks) {
      shell.signals.push_back(fmt::format("{} {}", signum, tasks ? "for '" + tasks->str() + "'" : "for all"));
    };
    out.on_lost = [&shell](Rank rank) { shell.lost.push_back(rank); };
    out.on_tasks = [&shell](const value::Idset& started, const std::vector<Ended>& ended) {
      shell.started = shell.started | started;
      for (const Ended& each : ended) shell.ended.add(each.tasks, each.record);
    };
    out.on_cut_off = [&shell](const Error& why) { shell.cut_off = why.message; };
    return out;
  }

  void run_until(const std::function<bool()>& done) const { loop->run_until(done); }
  template <typename Do>
  void each(Do what) {
    for (Shell& shell : shells) {
      if (shell.member) what(shell);
    }
  }
  bool all(const std::function<bool(const Shell&)>& is) const {
    return std::all_of(shells.begin(), shells.end(),
                       [&](const Shell& shell) { return !shell.member || is(shell); });
  }
  void pass(const std::string& barrier) {
    std::size_t passed = 0;
    std::size_t here = 0;
    each([&](Shell& shell) {
      ++here;
      shell.member->enter(barrier, [&](Result<void> result) {
        CHECK(result);
        ++passed;
      });
    });
    run_until([&] { return passed == here; });
  }
  void leave(std::optional<int> expected = 7) {
    each([=](Shell& shell) {
      shell.member->leave(7, [&shell, expected](std::optional<int> code) {
        CHECK(code == expected);  // the leader's
        shell.gone = true;
      });
    });
    run_until([this] { return all([](const Shell& shell) { return shell.gone; }); });
  }

  Folder folder;
  std::uint32_t size;
  std::uint32_t arity = 2;
  overlay::Options bounds;
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::vector<Membership> memberships;
  std::vector<Shell> shells;
};

}  // namespace nacre::group
