// SPDX-License-Identifier: Apache-2.0
#include "leaving.hpp"

namespace nacre {
namespace {

constexpr event::Seconds kAgentsGrace{5};  // for what has started other shells, once those have come to their end
// For the shells that have joined to end with a job that some have not joined: each has only to pass the end on.
constexpr event::Seconds kUnjoinedGrace{2};

void end_agents(Footing& footing) {
  if (!footing.launcher) return;
  bool ended = false;
  footing.launcher->finish(kAgentsGrace, [&ended] { ended = true; });
  footing.loop->run_until([&ended] { return ended; });
}

}  // namespace

void log_cause(Log& log, const group::Exception& cause, bool leads) {
  Level level = cause.of_shell ? Level::fatal : Level::error;
  if (!leads) level = Level::debug;
  if (!log.wants(level)) return;
  std::string type = cause.of_shell ? "" : cause.type + ": ";
  log.post({level, "", "", 0, type + cause.message, cause.origin});
}

std::optional<int> leave(Footing& footing, int code) {
  struct {
    std::optional<int> code;
    bool done = false;
    bool late = false;
  } left;
  footing.left = true;
  auto timer = event::Timer::create(*footing.loop, [&left] { left.late = true; });
  if (timer && !footing.joined) timer->start_grace(kUnjoinedGrace);
  if (!footing.joined) footing.group->give_up_absent();
  footing.group->leave(code, [&left](std::optional<int> agreed) {
    left.code = agreed;
    left.done = true;
  });
  footing.loop->run_until([&left] { return left.done || left.late; });
  end_agents(footing);
  if (!left.done) footing.group.reset();  // which holds the callback
  return left.code;
}

int give_up(Footing& footing, group::Rank rank, const Error& why, Log& log) {
  constexpr int kCode = 1;
  if (!footing.group) return kCode;
  exits::JobEnd& end = footing.end;
  group::Group& group = *footing.group;
  // All shells fail in the same way where another logs it: the leader raises it.
  bool is_first = end.raised({why.message, kCode, rank}) == exits::Action::end;
  if (is_first && !why.is_logged) group.raise({"exec", 0, why.message, kCode, rank, true});
  group::Group::Callbacks callbacks;
  callbacks.on_exception = [&end, &log, rank](const group::Exception& raised) {
    if (raised.severity != 0 || end.is_decided()) return;
    end.ordered({raised.message, raised.exit_code, raised.origin});
    log_cause(log, raised, rank == 0);
  };
  callbacks.on_cut_off = [&end](const Error& cut) { end.cut_off(cut.message); };
  group.serve(std::move(callbacks));
  group.close_bulk();
  // The barriers of those that have become Shells.
  bool passed = false;  // may be set until the group lets go of the callbacks, in leave()
  bool enters = footing.joined || rank != 0;
  if (enters) group.enter(kExitBarrier, [](const Result<void>&) {});
  if (enters) group.enter(kEndBarrier, [&passed](const Result<void>&) { passed = true; });
  if (footing.joined) footing.loop->run_until([&passed] { return passed; });
  auto agreed = leave(footing, end.code({}, exits::Policy::max()));
  if (footing.group) footing.group->serve({});
  return agreed.value_or(end.code({}, exits::Policy::max()));
}

}  // namespace nacre
