// SPDX-License-Identifier: Apache-2.0
//
// <flux/reactor.h>: the reactor, and what all watchers have in common.

#include "flux/flux.hpp"

#include <sys/stat.h>

#include "event/clock.hpp"

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

// ---- watchers ---------------------------------------------------------------------------
//
// <flux/reactor.h>: all watchers except those of handles.

namespace {

constexpr double kStatInterval = 5;  // seconds; the default

// A watcher that wraps one of the loop's.
template <typename Inner>
class Around : public flux_watcher {
 public:
  using flux_watcher::flux_watcher;

 protected:
  void end() override { inner.reset(); }
  void set_keeps_running() override { inner->keeps_running(referenced); }
  Result<void> hold(Result<Inner> made) {
    if (!made) return std::move(made).error();
    inner = *std::move(made);
    set_keeps_running();
    return {};
  }

  std::optional<Inner> inner;
};

class FdWatcher final : public Around<event::Poll> {
 public:
  FdWatcher(flux_reactor* r, int watched, int wanted, flux_watcher_f cb, void* data)
      : Around(r, cb, data, "fd callback"), fd(watched), events(wanted) {}
  const int fd;

 private:
  Result<void> begin() override {
    CHECK_OK(hold(event::Poll::create(*reactor->loop, fd, [this](int ready) { on_ready(ready); })));
    return inner->start(((events & FLUX_POLLIN) != 0 ? event::Poll::kReadable : 0) |
                        ((events & FLUX_POLLOUT) != 0 ? event::Poll::kWritable : 0));
  }
  void on_ready(int ready) {
    if (ready == 0) return fire(FLUX_POLLERR);
    fire(((ready & event::Poll::kReadable) != 0 ? FLUX_POLLIN : 0) |
         ((ready & event::Poll::kWritable) != 0 ? FLUX_POLLOUT : 0));
  }

  int events;
};

class TimerWatcher final : public Around<event::Timer> {
 public:
  TimerWatcher(flux_reactor* r, double first, double period, flux_watcher_f cb, void* data)
      : Around(r, cb, data, "timer callback"), after(first), repeat(period) {}

  void again() {
    stop();
    if (repeat <= 0) return;
    double first = std::exchange(after, repeat);
    start();
    after = first;
  }

  double after;
  double repeat;
  double due = 0;  // as Loop::now()

 private:
  Result<void> begin() override {
    CHECK_OK(hold(event::Timer::create(*reactor->loop, [this] { on_time(); })));
    inner->start(event::Seconds(nacre::flux::never_early(after)), event::Seconds(repeat));
    due = reactor->loop->now() + after;
    return {};
  }
  void on_time() {
    if (repeat <= 0) {
      stop();
    } else {
      due = reactor->loop->now() + repeat;
    }
    fire(0);
  }
};

// The wall clock may be set, so the next time is computed anew each time, and checked once a minute.
class PeriodicWatcher final : public Around<event::Timer> {
 public:
  PeriodicWatcher(flux_reactor* r, double first, double period, flux_reschedule_f next, flux_watcher_f cb,
                  void* data)
      : Around(r, cb, data, "periodic callback"), offset(first), interval(period), reschedule(next) {}

  void reset(double first, double period, flux_reschedule_f next) {
    offset = first;
    interval = period;
    reschedule = next;
    if (active) schedule();
  }

  double due = 0;  // seconds since the epoch

 private:
  static constexpr double kLongestWait = 60;

  Result<void> begin() override {
    CHECK_OK(hold(event::Timer::create(*reactor->loop, [this] { on_time(); })));
    schedule();
    return {};
  }

  void schedule() {
    double now = event::wall_clock();
    if (reschedule != nullptr) {
      owner.run([&] { due = reschedule(this, now, arg); });
      if (due < now) return stop();
    } else if (interval > 0) {
      due = offset + (std::floor((now - offset) / interval) + 1) * interval;
    } else {
      due = offset;
    }
    wait(now);
  }

  void wait(double now) {
    if (inner) inner->start(event::Seconds(std::clamp(due - now, 0.0, kLongestWait)));
  }

  void on_time() {
    double now = event::wall_clock();
    if (now < due) return wait(now);
    if (reschedule == nullptr && interval <= 0) {
      stop();
    } else {
      schedule();
    }
    fire(0);
  }

  double offset;
  double interval;
  flux_reschedule_f reschedule;
};

class PhaseWatcher final : public Around<event::Phase> {
 public:
  PhaseWatcher(flux_reactor* r, event::Phase::When phase, flux_watcher_f cb, void* data, std::string_view what)
      : Around(r, cb, data, what), when(phase) {}

 private:
  Result<void> begin() override {
    CHECK_OK(hold(event::Phase::create(*reactor->loop, when, [this] { fire(0); })));
    inner->start();
    return {};
  }
  event::Phase::When when;
};

class SignalWatcher final : public Around<event::SignalWatcher> {
 public:
  SignalWatcher(flux_reactor* r, int number, flux_watcher_f cb, void* data)
      : Around(r, cb, data, "signal callback"), signum(number) {}
  const int signum;

 private:
  Result<void> begin() override {
    return hold(event::SignalWatcher::create(*reactor->loop, signum, [this](int) { fire(0); }));
  }
};

class StatWatcher final : public Around<event::Timer> {
 public:
  StatWatcher(flux_reactor* r, const char* watched, double period, flux_watcher_f cb, void* data)
      : Around(r, cb, data, "stat callback"), path(watched), interval(period > 0 ? period : kStatInterval) {}

  struct stat now {};
  struct stat before {};

 private:
  Result<void> begin() override {
    CHECK_OK(hold(event::Timer::create(*reactor->loop, [this] { look(); })));
    before = now = status();
    inner->start(event::Seconds(interval), event::Seconds(interval));
    return {};
  }
  [[nodiscard]] struct stat status() const {
    struct stat found {};
    if (::stat(path.c_str(), &found) < 0) found = {};
    return found;
  }
  static bool same(const struct stat& a, const struct stat& b) {
    auto time = [](const timespec& x, const timespec& y) { return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec; };
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mode == b.st_mode && a.st_nlink == b.st_nlink &&
           a.st_uid == b.st_uid && a.st_gid == b.st_gid && a.st_size == b.st_size && time(a.st_mtim, b.st_mtim) &&
           time(a.st_ctim, b.st_ctim);
  }
  void look() {
    struct stat found = status();
    if (same(found, now)) return;
    before = std::exchange(now, found);
    fire(0);
  }

  std::string path;
  double interval;
};

template <typename Kind>
Kind* as(flux_watcher_t* w) {
  auto* kind = dynamic_cast<Kind*>(w);
  if (kind == nullptr) errno = EINVAL;
  return kind;
}

bool is_time(double seconds) { return seconds >= 0 && seconds <= std::numeric_limits<double>::max(); }

flux_watcher_t* phase_watcher(flux_reactor_t* r, event::Phase::When when, flux_watcher_f cb, void* arg,
                              std::string_view what) {
  if (r == nullptr) return none(EINVAL);
  return new PhaseWatcher(r, when, cb, arg, what);
}

}  // namespace

flux_watcher_t* flux_fd_watcher_create(flux_reactor_t* r, int fd, int events, flux_watcher_f cb,
                                       void* arg) noexcept {
  if (r == nullptr || fd < 0) return none(EINVAL);
  return new FdWatcher(r, fd, events, cb, arg);
}

int flux_fd_watcher_get_fd(flux_watcher_t* w) noexcept {
  auto* kind = as<FdWatcher>(w);
  return kind != nullptr ? kind->fd : -1;
}

flux_watcher_t* flux_timer_watcher_create(flux_reactor_t* r, double after, double repeat, flux_watcher_f cb,
                                          void* arg) noexcept {
  if (r == nullptr || !is_time(after) || !is_time(repeat)) return none(EINVAL);
  return new TimerWatcher(r, after, repeat, cb, arg);
}

void flux_timer_watcher_reset(flux_watcher_t* w, double after, double repeat) noexcept {
  auto* kind = as<TimerWatcher>(w);
  if (kind == nullptr || !is_time(after) || !is_time(repeat)) return;
  kind->after = after;
  kind->repeat = repeat;
}

void flux_timer_watcher_again(flux_watcher_t* w) noexcept {
  if (auto* kind = as<TimerWatcher>(w)) kind->again();
}

flux_watcher_t* flux_periodic_watcher_create(flux_reactor_t* r, double offset, double interval,
                                             flux_reschedule_f reschedule_cb, flux_watcher_f cb,
                                             void* arg) noexcept {
  if (r == nullptr || !is_time(offset) || !is_time(interval)) return none(EINVAL);
  return new PeriodicWatcher(r, offset, interval, reschedule_cb, cb, arg);
}

void flux_periodic_watcher_reset(flux_watcher_t* w, double offset, double interval,
                                 flux_reschedule_f reschedule_cb) noexcept {
  auto* kind = as<PeriodicWatcher>(w);
  if (kind != nullptr && is_time(offset) && is_time(interval)) kind->reset(offset, interval, reschedule_cb);
}

double flux_watcher_next_wakeup(flux_watcher_t* w) noexcept {
  if (w != nullptr && w->active) {
    if (auto* timer = dynamic_cast<TimerWatcher*>(w)) {
      return flux_reactor_now(w->reactor) - w->reactor->loop->now() + timer->due;
    }
    if (auto* periodic = dynamic_cast<PeriodicWatcher*>(w)) return periodic->due;
  }
  return fail(EINVAL);
}

flux_watcher_t* flux_prepare_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) noexcept {
  return phase_watcher(r, event::Phase::When::prepare, cb, arg, "prepare callback");
}

flux_watcher_t* flux_check_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) noexcept {
  return phase_watcher(r, event::Phase::When::check, cb, arg, "check callback");
}

flux_watcher_t* flux_idle_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) noexcept {
  return phase_watcher(r, event::Phase::When::idle, cb, arg, "idle callback");
}

flux_watcher_t* flux_signal_watcher_create(flux_reactor_t* r, int signum, flux_watcher_f cb, void* arg) noexcept {
  if (r == nullptr || signum < 1 || signum >= NSIG) return none(EINVAL);
  return new SignalWatcher(r, signum, cb, arg);
}

int flux_signal_watcher_get_signum(flux_watcher_t* w) noexcept {
  auto* kind = as<SignalWatcher>(w);
  return kind != nullptr ? kind->signum : -1;
}

flux_watcher_t* flux_stat_watcher_create(flux_reactor_t* r, const char* path, double interval, flux_watcher_f cb,
                                         void* arg) noexcept {
  if (r == nullptr || path == nullptr || !is_time(interval)) return none(EINVAL);
  return new StatWatcher(r, path, interval, cb, arg);
}

int flux_stat_watcher_get_rstat(flux_watcher_t* w, struct stat* stat, struct stat* prev) noexcept {
  auto* kind = as<StatWatcher>(w);
  if (kind == nullptr) return -1;
  if (stat != nullptr) *stat = kind->now;
  if (prev != nullptr) *prev = kind->before;
  return 0;
}
