// SPDX-License-Identifier: Apache-2.0
#include "join/signals.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>

#include "base/process_start.hpp"

namespace nacre::join {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

}  // namespace

Result<std::unique_ptr<Signals>> Signals::watch(event::Loop& loop) {
  std::unique_ptr<Signals> out(new Signals());
  std::signal(SIGPIPE, SIG_IGN);  // write(2) reports it
  auto on_signal = [self = out.get()](int signum) { self->received(signum, From::process); };
  for (int signum : kEnding) {
    // nohup(1) ignores SIGHUP on purpose. SIGINT and SIGQUIT may only be ignored because a shell without job
    // control started this process in the background.
    if (signum == SIGHUP && ignores_signal(SIGHUP)) continue;
    auto watcher = TRY(event::SignalWatcher::create(loop, signum, on_signal));
    watcher.keeps_running(false);
    out->watchers_.push_back(std::move(watcher));
  }
  return out;
}

bool Signals::is_ending(int signum) {
  return std::find(std::begin(kEnding), std::end(kEnding), signum) != std::end(kEnding);
}

void Signals::serve(OnSignal on_signal) {
  on_signal_ = std::move(on_signal);
  if (!on_signal_) return;
  for (auto [signum, from] : std::exchange(kept_, {})) on_signal_(signum, from);
}

void Signals::received(int signum, From from) {
  if (!on_signal_) {
    kept_.emplace_back(signum, from);
    return;
  }
  OnSignal handle = on_signal_;  // a copy: the handler may install another one
  handle(signum, from);
}

}  // namespace nacre::join
