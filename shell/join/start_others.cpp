// SPDX-License-Identifier: Apache-2.0
#include "join/start_others.hpp"

#include <utility>

namespace nacre::join {

void make_launcher(ShellProcess& process, const launch::LaunchRecord& record, group::OverlayDriver& member,
                   Log& log, std::function<void(group::Rank, int signum)> on_killed) {
  launch::Launcher::Options options;
  options.agent = record.agent;
  options.shell = record.shell;
  options.shell.emplace_back("--boot=hosts");
  options.timeout = event::Seconds(record.timeout);
  options.joins_alike = record.rank == 0;
  options.drops_output = record.detaching != launch::Detaching::never;
  launch::Launcher::Callbacks callbacks;
  callbacks.on_failed = [&member, &log, &process, size = record.size](group::Rank rank, const std::string& host,
                                                                      const std::string& why) {
    if (rank >= size && process.later && process.later->on_failed)
      process.later->on_failed(rank, why);
    else
      log.log(Level::error, "", "shell {} on {} was not started: {}", rank, host, why);
    member.suspect(rank);
  };
  callbacks.on_killed = std::move(on_killed);
  // The shell's links may not have reported its end yet.
  callbacks.on_ended = [&member](group::Rank rank, const value::WaitStatus&) { member.suspect(rank); };
  process.launcher = std::make_unique<launch::Launcher>(*process.loop, *process.children, std::move(options),
                                                        std::move(callbacks));
  member.hooks().on_child = [&launcher = process.launcher](group::Rank child) {
    if (launcher) launcher->joined(child);
  };
  member.hooks().on_gone = [&launcher = process.launcher](group::Rank rank, std::function<void()> done) {
    launcher ? launcher->left(rank, std::move(done)) : done();
  };
  member.hooks().on_lost_at_end = [&launcher = process.launcher](group::Rank rank) {
    if (launcher) launcher->lost(rank);
  };
}

}  // namespace nacre::join
