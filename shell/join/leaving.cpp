// SPDX-License-Identifier: Apache-2.0
#include "join/leaving.hpp"

namespace nacre::join {
namespace {

// For the processes that have started other shells, once those shells have ended
constexpr event::Seconds kAgentsGrace{5};
// For a job that ends before all shells have joined: each one that has joined only has to pass the end on.
constexpr event::Seconds kUnjoinedGrace{2};
// For what a shell that leaves before the others has sent last to get out
constexpr event::Seconds kLastSent{5};

void end_agents(ShellProcess& process) {
  if (!process.launcher) return;
  bool ended = false;
  process.launcher->finish(kAgentsGrace, [&ended] { ended = true; });
  process.loop->run_until([&ended] { return ended; });
}

// A shell that has left its job before the others goes on to hold the agents of those that it has started, until
// they end, or its own launcher does.
void keep_agents(ShellProcess& process) {
  process.group->stay();
  bool over = process.launcher_events.gone.has_value();
  process.launcher_events.on_gone = [&over] { over = true; };
  process.loop->run_until([&] { return over || process.launcher->running() == 0; });
  process.launcher_events.on_gone = nullptr;
}

// It counts as gone when this process has ended, with all that has come after the log: handlers, the guard.
void leave_last_link_open(ShellProcess& process) {
  bool late = false;
  auto timer = event::Timer::create(*process.loop, [&late] { late = true; });
  if (timer) timer->start_grace(kLastSent);
  std::optional<UniqueFd> link;
  process.loop->run_until([&] {
    if (!link) link = process.group->take_last_link();
    return link || late || !timer;
  });
  if (link) static_cast<void>(link->release());  // the kernel closes it
}

}  // namespace

void log_cause(Log& log, const group::JobException& cause, bool leads) {
  Level level = cause.of_shell ? Level::fatal : Level::error;
  if (!leads) level = Level::debug;
  if (!log.wants(level)) return;
  std::string type = cause.of_shell ? "" : cause.type + ": ";
  log.post({level, "", "", 0, type + cause.message, cause.origin});
}

std::optional<int> leave(ShellProcess& process, int code) {
  struct {
    std::optional<int> code;
    bool done = false;
    bool late = false;
  } left;
  process.left = true;
  auto timer = event::Timer::create(*process.loop, [&left] { left.late = true; });
  if (timer && !process.joined) timer->start_grace(kUnjoinedGrace);
  if (!process.joined) process.group->give_up_absent();
  process.group->leave(code, [&left](std::optional<int> agreed) {
    left.code = agreed;
    left.done = true;
  });
  process.loop->run_until([&left] { return left.done || left.late; });
  bool is_early = process.joined && left.done && !left.code && !process.end.is_cut_off();
  bool holds_agents = process.launcher && process.launcher->running() > 0;
  if (is_early) holds_agents ? keep_agents(process) : leave_last_link_open(process);
  if (process.hands_over && process.end.is_cut_off() && process.launcher)
    process.launcher->let_go();  // another shell leads them by now
  else
    end_agents(process);
  if (!left.done) process.group.reset();  // the group holds the callback
  return left.code;
}

int give_up(ShellProcess& process, group::Rank rank, const Error& why, Log& log) {
  constexpr int kCode = 1;
  if (!process.group) return kCode;
  exits::JobEnd& end = process.end;
  group::Group& group = *process.group;
  group::Group::Callbacks callbacks;
  callbacks.on_exception = [&end, &log, rank](const group::JobException& raised) {
    if (raised.severity != 0 || end.is_decided()) return;
    end.ordered({raised.message, raised.exit_code, raised.origin});
    log_cause(log, raised, rank == 0);
  };
  callbacks.on_cut_off = [&end](const Error& cut) { end.cut_off(cut.message); };
  group.serve(std::move(callbacks));
  // If another shell logs it, all shells fail in the same way: the leader raises it.
  bool is_first = end.raised({why.message, kCode, rank}) == exits::Action::end;
  if (is_first && !why.is_logged) group.raise({"exec", 0, why.message, kCode, rank, true});
  if (rank == 0) {
    process.launcher_events.on_gone = [&group] { group.give_up_silent(); };
    if (process.launcher_events.gone) group.give_up_silent();
  }
  group.close_bulk();
  // The barriers that a Shell enters when it ends.
  bool passed = false;  // the callback may set it until leave() destroys the group
  bool enters = process.joined || rank != 0;
  if (enters) group.sum_with_all(kExitBarrier, 0, [](const Result<std::int64_t>&) {});
  if (enters) group.max_with_all(kEndBarrier, 0, [&passed](const Result<std::int64_t>&) { passed = true; });
  if (process.joined) process.loop->run_until([&passed] { return passed; });
  auto agreed = leave(process, end.code({}, exits::Policy::max()));
  process.launcher_events.on_gone = nullptr;
  if (process.group) process.group->serve({});
  return agreed.value_or(end.code({}, exits::Policy::max()));
}

}  // namespace nacre::join
