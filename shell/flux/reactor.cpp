// SPDX-License-Identifier: Apache-2.0
//
// <flux/reactor.h>: the reactor, and what all watchers have in common.
#include "flux/reactor.hpp"

#include <algorithm>
#include <cmath>

#include "event/clock.hpp"
#include "flux/future.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr double kClockWasSet = 0.01;  // seconds that the wall clock is off

}  // namespace

// ---- reactor -----------------------------------------------------------------

void flux_reactor::retire() {
  for (flux_watcher* each : std::exchange(watchers, {})) {
    each->stop();
    each->reactor = nullptr;
    if (!own) delete each;
  }
  for (flux_future* each : std::exchange(futures, {})) each->disarm(this);
}

flux_reactor_t* flux_reactor_create(int flags) noexcept {
  if (flags != 0) return none(EINVAL);
  Result<std::unique_ptr<event::Loop>> loop = event::Loop::create();
  if (!loop) return none(loop.error().code);
  return new flux_reactor(*std::move(loop));
}

void flux_reactor_incref(flux_reactor_t* r) noexcept {
  if (r != nullptr) ++r->references;
}

void flux_reactor_decref(flux_reactor_t* r) noexcept {
  if (r == nullptr || --r->references > 0) return;
  int saved = errno;
  delete r;
  errno = saved;
}

void flux_reactor_destroy(flux_reactor_t* r) noexcept { flux_reactor_decref(r); }

int flux_reactor_run(flux_reactor_t* r, int flags) {
  if (r == nullptr || (flags & ~(FLUX_REACTOR_NOWAIT | FLUX_REACTOR_ONCE)) != 0) return fail(EINVAL);
  if (r->loop->running()) return fail(EBUSY);
  r->stopped = r->failed = false;
  if ((flags & FLUX_REACTOR_NOWAIT) != 0) {
    r->loop->poll();
  } else if ((flags & FLUX_REACTOR_ONCE) != 0) {
    r->loop->run_once();
  } else {
    r->loop->run_until([r] { return r->stopped; });
  }
  if (r->failed) return -1;
  auto active = [](const flux_watcher* each) { return each->active && each->referenced; };
  return static_cast<int>(std::count_if(r->watchers.begin(), r->watchers.end(), active));
}

void flux_reactor_stop(flux_reactor_t* r) noexcept {
  if (r != nullptr) r->stopped = true;
}

void flux_reactor_stop_error(flux_reactor_t* r) noexcept {
  if (r != nullptr) r->stopped = r->failed = true;
}

double flux_reactor_time() noexcept { return event::wall_clock(); }

// By the loop's clock, counted from the wall clock as it was at the first call or the last update.
double flux_reactor_now(flux_reactor_t* r) noexcept {
  if (r == nullptr) return fail(EINVAL);
  if (!r->epoch) flux_reactor_now_update(r);
  return *r->epoch + r->loop->now();
}

void flux_reactor_now_update(flux_reactor_t* r) noexcept {
  if (r == nullptr) return;
  r->loop->update_now();
  // The loop's time is in whole milliseconds: so only a clock that was set changes what it is added to, and a time
  // between two calls is never shorter than it was.
  double epoch = event::wall_clock() - r->loop->now();
  if (!r->epoch || std::abs(epoch - *r->epoch) > kClockWasSet) r->epoch = epoch;
}

// ---- watchers ----------------------------------------------------------------

flux_watcher::flux_watcher(flux_reactor* of_reactor, flux_watcher_f function, void* argument, std::string_view what)
    : reactor(of_reactor), callback(function), arg(argument), owner(what) {
  reactor->watchers.insert(this);
}

flux_watcher::~flux_watcher() {
  if (reactor != nullptr) reactor->watchers.erase(this);
}

void flux_watcher::start() {
  if (active || reactor == nullptr) return;
  active = true;
  Result<void> begun = begin();
  if (begun) return;
  stop();
  if (flux_shell* shell = current_shell()) {
    shell->host.log().log(Level::error, "", "flux_watcher_start: {}", begun.error().message);
  }
}

void flux_watcher::stop() {
  if (!std::exchange(active, false)) return;
  end();
}

void flux_watcher::keep_running(bool keeps) {
  referenced = keeps;
  if (active) set_keeps_running();
}

void flux_watcher::fire(int revents) {
  if (callback == nullptr) return;
  owner.run([this, revents] { callback(reactor, this, revents, arg); });
}

void flux_watcher_start(flux_watcher_t* w) noexcept {
  if (w != nullptr) w->start();
}

void flux_watcher_stop(flux_watcher_t* w) noexcept {
  if (w != nullptr) w->stop();
}

void flux_watcher_destroy(flux_watcher_t* w) noexcept {
  if (w == nullptr) return;
  int saved = errno;
  w->stop();
  delete w;
  errno = saved;
}

bool flux_watcher_is_active(flux_watcher_t* w) noexcept { return w != nullptr && w->active; }

void flux_watcher_ref(flux_watcher_t* w) noexcept {
  if (w != nullptr) w->keep_running(true);
}

void flux_watcher_unref(flux_watcher_t* w) noexcept {
  if (w != nullptr) w->keep_running(false);
}

bool flux_watcher_is_referenced(flux_watcher_t* w) noexcept { return w != nullptr && w->referenced; }

void flux_watcher_set_priority(flux_watcher_t* /*w*/, int /*priority*/) noexcept {}
