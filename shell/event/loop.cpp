// SPDX-License-Identifier: Apache-2.0
#include "event/loop.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <uv.h>

#include <atomic>

#include "base/guarded.hpp"
#include "base/print.hpp"
#include "base/unique_fd.hpp"

namespace nacre::event {
namespace {

Error uv_error(int code, std::string_view what) { return system_error(-code, what); }

template <typename State>
State* state_of(void* handle) {
  return static_cast<State*>(static_cast<uv_handle_t*>(handle)->data);
}

// Closes the handle of a watcher's state; the state is freed once libuv is done with it. So a callback may destroy
// its own watcher.
template <typename State>
void close_state(std::unique_ptr<State> state) {
  if (!state) return;
  State* raw = state.release();
  uv_close(reinterpret_cast<uv_handle_t*>(&raw->handle),
           [](uv_handle_t* handle) { delete state_of<State>(handle); });
}

// A watcher's, of the component of the program that has made it.
template <typename... Args>
struct Callback {
  std::function<void(Args...)> function;
  const Component* component = InComponent::current();

  void operator()(Args... args) const {
    guarded(component, [&] { function(args...); });
  }
};

template <typename State>
void set_keeps_running(State& state, bool keeps) {
  auto* handle = reinterpret_cast<uv_handle_t*>(&state.handle);
  if (keeps) {
    uv_ref(handle);
  } else {
    uv_unref(handle);
  }
}

std::uint64_t milliseconds(Seconds time) {
  double ms = std::ceil(time.count() * 1e3);
  if (!(ms > 0)) return 0;
  constexpr double kMax = 9e15;  // libuv cannot add more to its clock; longer than any job
  return static_cast<std::uint64_t>(std::min(ms, kMax));
}

}  // namespace

// ---- Loop --------------------------------------------------------------------

Loop::Loop() : loop_(std::make_unique<uv_loop_t>()), before_waiting_(std::make_unique<uv_prepare_t>()) {}

Result<std::unique_ptr<Loop>> Loop::create() {
  // libuv aborts if it cannot make the pipe for its signals. So this tries first, with two more descriptors than
  // needed.
  {
    Pipe first = TRY(in("cannot make an event loop", make_pipe(O_CLOEXEC)));
    Pipe second = TRY(in("cannot make an event loop", make_pipe(O_CLOEXEC)));
  }
  std::unique_ptr<Loop> loop(new Loop);
  if (int code = uv_loop_init(loop->raw()); code < 0) {
    loop->loop_.reset();
    return uv_error(code, "cannot make an event loop");
  }
  uv_prepare_init(loop->raw(), loop->before_waiting_.get());
  uv_unref(reinterpret_cast<uv_handle_t*>(loop->before_waiting_.get()));
  return loop;
}

Loop::~Loop() {
  if (!loop_) return;
  uv_close(reinterpret_cast<uv_handle_t*>(before_waiting_.get()), nullptr);
  // Runs the close callbacks; a signal watcher that was just called needs a second round.
  for (int round = 0; round < 4 && uv_run(raw(), UV_RUN_NOWAIT) != 0; ++round) {
  }
  if (uv_loop_close(raw()) == 0) return;
  print_err("nacre: handles left on the event loop:\n");
  uv_print_all_handles(raw(), stderr);
  std::abort();
}

void Loop::run() {
  ++depth_;
  uv_run(raw(), UV_RUN_DEFAULT);
  --depth_;
}

void Loop::run_until(const std::function<bool()>& done) {
  struct Wait {
    const std::function<bool()>& done;
    bool over;
  } wait{done, done()};
  before_waiting_->data = &wait;
  // UV_RUN_ONCE runs the timers that are due and then waits, even if one of them has made done() true.
  uv_prepare_start(before_waiting_.get(), [](uv_prepare_t* handle) {
    auto* waiting = static_cast<Wait*>(handle->data);
    waiting->over = waiting->done();
    if (waiting->over) uv_stop(handle->loop);
  });
  ++depth_;
  while (!wait.over && uv_run(raw(), UV_RUN_ONCE) != 0) wait.over = wait.over || done();
  --depth_;
  uv_prepare_stop(before_waiting_.get());
}

void Loop::poll() {
  ++depth_;
  uv_run(raw(), UV_RUN_NOWAIT);
  --depth_;
}

void Loop::run_once() {
  ++depth_;
  uv_run(raw(), UV_RUN_ONCE);
  --depth_;
}

bool Loop::alive() const { return uv_loop_alive(loop_.get()) != 0; }

void Loop::stop() { uv_stop(raw()); }

void Loop::update_now() { uv_update_time(raw()); }

double Loop::now() const { return static_cast<double>(uv_now(loop_.get())) / 1e3; }

// ---- Timer -------------------------------------------------------------------

struct Timer::State {
  uv_timer_t handle{};
  Loop* loop = nullptr;
  Callback<> callback;
  std::uint64_t left = 0;   // milliseconds of a grace, with the running slice
  std::uint64_t slice = 0;  // the length of a slice; if one ends late it is waited for again
  std::uint64_t due = 0;    // the end of that slice, in the time of uv_now()
  std::uint64_t repeat = 0;

  void call() const;
  static void fire(uv_timer_t* timer) { state_of<State>(timer)->call(); }
  void next_slice();
  void slice_over();
};

Timer::Timer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Timer::Timer(Timer&&) noexcept = default;
Timer::~Timer() { close_state(std::move(state_)); }

Timer& Timer::operator=(Timer&& other) noexcept {
  close_state(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Result<Timer> Timer::create(Loop& loop, std::function<void()> callback) {
  auto state = std::make_unique<State>();
  if (int code = uv_timer_init(loop.raw(), &state->handle); code < 0) return uv_error(code, "cannot make a timer");
  state->handle.data = state.get();
  state->loop = &loop;
  state->callback.function = std::move(callback);
  return Timer(std::move(state));
}

// libuv calls all timers that are due, one after the other, before anything else: of one that starts itself again
// at once, for ever. So within a timer's callback "at once" is after the other events.
void Timer::start(Seconds delay, Seconds repeat) {
  uv_update_time(state_->handle.loop);
  std::uint64_t soonest = state_->loop->is_in_timer_ ? 1 : 0;
  uv_timer_start(&state_->handle, State::fire, std::max(milliseconds(delay), soonest), milliseconds(repeat));
}

void Timer::start_grace(Seconds grace, Seconds repeat) {
  state_->left = milliseconds(grace);
  state_->repeat = milliseconds(repeat);
  state_->next_slice();
}

void Timer::State::next_slice() {
  uv_update_time(handle.loop);
  slice = std::min(left, milliseconds(loop->look()));
  due = uv_now(handle.loop) + slice;
  uv_timer_start(
      &handle, [](uv_timer_t* timer) { state_of<State>(timer)->slice_over(); }, slice, 0);
}

void Timer::State::slice_over() {
  constexpr std::uint64_t kLate = 1000;
  bool stood_still = uv_now(handle.loop) > due + kLate;
  if (!stood_still) left -= slice;
  if (left > 0) return next_slice();
  if (repeat > 0) uv_timer_start(&handle, fire, repeat, repeat);
  call();
}

// It may run the loop, and so other timers.
void Timer::State::call() const {
  Loop& of = *loop;  // this may be gone after the callback, and the loop is not
  bool outer = std::exchange(of.is_in_timer_, true);
  callback();
  of.is_in_timer_ = outer;
}

void Timer::stop() { uv_timer_stop(&state_->handle); }

void Timer::keeps_running(bool keeps) { set_keeps_running(*state_, keeps); }

// ---- SignalWatcher -------------------------------------------------------------

struct SignalWatcher::State {
  uv_signal_t handle{};
  Callback<int> callback;
};

namespace {

std::array<std::atomic<bool>, NSIG> watched_signals;

// libuv's handlers write to the loop's pipe, which a process that others fork has, too: what it is sent would be
// taken for a signal to this one.
void reset_watched_signals() {
  struct sigaction action {};
  for (int signum = 1; signum < NSIG; ++signum) {
    if (!watched_signals[static_cast<std::size_t>(signum)] || ::sigaction(signum, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signum, &action, nullptr);
  }
}

void reset_in_forked(int signum) {
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, reset_watched_signals);
  watched_signals[static_cast<std::size_t>(signum)] = true;
}

}  // namespace

SignalWatcher::SignalWatcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
SignalWatcher::SignalWatcher(SignalWatcher&&) noexcept = default;
SignalWatcher::~SignalWatcher() { close_state(std::move(state_)); }

SignalWatcher& SignalWatcher::operator=(SignalWatcher&& other) noexcept {
  close_state(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Result<SignalWatcher> SignalWatcher::create(Loop& loop, int signum, std::function<void(int)> callback) {
  auto state = std::make_unique<State>();
  if (int code = uv_signal_init(loop.raw(), &state->handle); code < 0)
    return uv_error(code, "cannot watch signals");
  state->handle.data = state.get();
  state->callback.function = std::move(callback);
  SignalWatcher watcher(std::move(state));
  uv_signal_t* handle = &watcher.state_->handle;
  auto received = [](uv_signal_t* signal, int number) { state_of<State>(signal)->callback(number); };
  if (int code = uv_signal_start(handle, received, signum); code < 0) {
    return uv_error(code, "cannot watch signal " + std::to_string(signum));
  }
  reset_in_forked(signum);
  return watcher;
}

void SignalWatcher::keeps_running(bool keeps) { set_keeps_running(*state_, keeps); }

// ---- Poll ----------------------------------------------------------------------

struct Poll::State {
  uv_poll_t handle{};
  int wanted = 0;  // of UV_READABLE and so on, since the last start
  Callback<int> callback;
};

Poll::Poll(std::unique_ptr<State> state) : state_(std::move(state)) {}
Poll::Poll(Poll&&) noexcept = default;
Poll::~Poll() { close_state(std::move(state_)); }

Poll& Poll::operator=(Poll&& other) noexcept {
  close_state(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Result<Poll> Poll::create(Loop& loop, int fd, std::function<void(int)> callback) {
  auto state = std::make_unique<State>();
  if (int code = uv_poll_init(loop.raw(), &state->handle, fd); code < 0) {
    return uv_error(code, "cannot poll descriptor " + std::to_string(fd));
  }
  state->handle.data = state.get();
  state->callback.function = std::move(callback);
  return Poll(std::move(state));
}

Result<void> Poll::start(int events) {
  int wanted = (events & kReadable ? UV_READABLE | UV_DISCONNECT : 0) | (events & kWritable ? UV_WRITABLE : 0);
  // libuv would tell the kernel to forget the descriptor, and then to watch it again.
  if (wanted == std::exchange(state_->wanted, wanted) &&
      uv_is_active(reinterpret_cast<uv_handle_t*>(&state_->handle)) != 0)
    return {};
  auto ready = [](uv_poll_t* handle, int status, int happened) {
    int out = (happened & (UV_READABLE | UV_DISCONNECT) ? kReadable : 0) | (happened & UV_WRITABLE ? kWritable : 0);
    state_of<State>(handle)->callback(status < 0 ? 0 : out);
  };
  if (int code = uv_poll_start(&state_->handle, wanted, ready); code < 0) return uv_error(code, "cannot poll");
  return {};
}

void Poll::stop() { uv_poll_stop(&state_->handle); }

void Poll::keeps_running(bool keeps) { set_keeps_running(*state_, keeps); }

// ---- Phase ---------------------------------------------------------------------

struct Phase::State {
  // All three kinds of handle have the same first members, as all of libuv's handles do.
  union {
    uv_prepare_t handle{};
    uv_check_t check;
    uv_idle_t idle;
  };
  When when = When::prepare;
  Callback<> callback;
};

Phase::Phase(std::unique_ptr<State> state) : state_(std::move(state)) {}
Phase::Phase(Phase&&) noexcept = default;
Phase::~Phase() { close_state(std::move(state_)); }

Phase& Phase::operator=(Phase&& other) noexcept {
  close_state(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Result<Phase> Phase::create(Loop& loop, When when, std::function<void()> callback) {
  auto state = std::make_unique<State>();
  state->when = when;
  state->callback.function = std::move(callback);
  switch (when) {
    case When::prepare:
      uv_prepare_init(loop.raw(), &state->handle);
      state->handle.data = state.get();
      break;
    case When::check:
      uv_check_init(loop.raw(), &state->check);
      state->check.data = state.get();
      break;
    case When::idle:
      uv_idle_init(loop.raw(), &state->idle);
      state->idle.data = state.get();
      break;
  }
  return Phase(std::move(state));
}

void Phase::start() {
  switch (state_->when) {
    case When::prepare:
      uv_prepare_start(&state_->handle, [](uv_prepare_t* handle) { state_of<State>(handle)->callback(); });
      break;
    case When::check:
      uv_check_start(&state_->check, [](uv_check_t* handle) { state_of<State>(handle)->callback(); });
      break;
    case When::idle:
      uv_idle_start(&state_->idle, [](uv_idle_t* handle) { state_of<State>(handle)->callback(); });
      break;
  }
}

void Phase::stop() {
  switch (state_->when) {
    case When::prepare: uv_prepare_stop(&state_->handle); break;
    case When::check: uv_check_stop(&state_->check); break;
    case When::idle: uv_idle_stop(&state_->idle); break;
  }
}

void Phase::keeps_running(bool keeps) { set_keeps_running(*state_, keeps); }

}  // namespace nacre::event
