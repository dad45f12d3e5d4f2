// SPDX-License-Identifier: Apache-2.0
//
// The event loop and its watchers: the only wrappers of libuv in the project. A watcher owns its handle, closes it
// in its destructor and frees it in the close callback, so a watcher may be destroyed at any time, even in its own
// callback. A callback runs on the loop's thread; what it throws is reported (base/guarded.hpp). Watchers must be
// gone before their loop: the loop's destructor drains the pending closes and aborts if a handle is left, so no
// handle leaks unnoticed.
#pragma once

#include "base/result.hpp"

struct uv_loop_s;
struct uv_prepare_s;

namespace nacre::event {

using Seconds = std::chrono::duration<double>;

class Loop : Noncopyable {
 public:
  static Result<std::unique_ptr<Loop>> create();
  ~Loop();

  void run();  // until stop(), or until nothing is left to wait for
  // Runs until done() is true, or until nothing is left to wait for. Calls done() before each wait and after each
  // round of events.
  void run_until(const std::function<bool()>& done);
  void poll();                                               // handles what is ready now, without waiting
  void run_once();                                           // waits for one round of events
  [[nodiscard]] bool running() const { return depth_ > 0; }  // inside a run or poll: no other may be started
  [[nodiscard]] bool alive() const;                          // something is left to wait for
  void stop();  // run() returns after this round; run_until() and poll() go on
  // Monotonic seconds, taken at the start of this round of events and by Timer::start.
  [[nodiscard]] double now() const;
  void update_now();
  // How often a grace (Timer::start_grace) checks whether this process stood still; by default each second.
  void look_for_standstills(Seconds each) { look_ = each; }
  [[nodiscard]] Seconds look() const { return look_; }
  [[nodiscard]] uv_loop_s* raw() { return loop_.get(); }

 private:
  Loop();
  std::unique_ptr<uv_loop_s> loop_;
  std::unique_ptr<uv_prepare_s> before_waiting_;  // for run_until
  friend class Timer;
  int depth_ = 0;
  bool is_in_timer_ = false;  // a timer's callback runs
  Seconds look_{1};
};

class Timer {
 public:
  static Result<Timer> create(Loop& loop, std::function<void()> callback);
  Timer(Timer&&) noexcept;
  Timer& operator=(Timer&&) noexcept;
  ~Timer();

  // Calls back first after `delay`, then every `repeat` if that is not zero. Restarts a running timer. The
  // resolution is a millisecond, rounded up. Within a timer's callback the least delay is one millisecond, so that
  // work in steps lets other callbacks run between them.
  void start(Seconds delay, Seconds repeat = Seconds::zero());
  // As start(), for a time that others are given: while this process stands still (SIGSTOP, a virtual machine that
  // is moved) others mostly do as well, so that time does not count. It may then end up to a second late.
  void start_grace(Seconds grace, Seconds repeat = Seconds::zero());
  void stop();
  void unref() { keeps_running(false); }
  // Whether it keeps run() going while it is started; true by default.
  void keeps_running(bool keeps);

 private:
  struct State;
  explicit Timer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class SignalWatcher {
 public:
  static Result<SignalWatcher> create(Loop& loop, int signum, std::function<void(int signum)> callback);
  SignalWatcher(SignalWatcher&&) noexcept;
  SignalWatcher& operator=(SignalWatcher&&) noexcept;
  ~SignalWatcher();

  void keeps_running(bool keeps);  // whether it keeps run() going; true by default

 private:
  struct State;
  explicit SignalWatcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Readiness of a descriptor that another object owns and keeps open while it is watched.
class Poll {
 public:
  enum Events : int { kReadable = 1, kWritable = 2 };  // a hang-up counts as readable
  // `callback` gets the events that are ready; 0 is an error of the descriptor (such as a pipe that has lost its
  // reader), after which it is not watched any more. libuv sets the descriptor's O_NONBLOCK flag. A descriptor can
  // have one watcher; a regular file can have none.
  static Result<Poll> create(Loop& loop, int fd, std::function<void(int events)> callback);
  Poll(Poll&&) noexcept;
  Poll& operator=(Poll&&) noexcept;
  ~Poll();

  Result<void> start(int events);
  void stop();
  void keeps_running(bool keeps);  // as Timer::keeps_running

 private:
  struct State;
  explicit Poll(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A callback in each round of events: before the loop waits, after it has waited, or in place of waiting.
class Phase {
 public:
  enum class When { prepare, check, idle };

  static Result<Phase> create(Loop& loop, When when, std::function<void()> callback);
  Phase(Phase&&) noexcept;
  Phase& operator=(Phase&&) noexcept;
  ~Phase();

  void start();
  void stop();
  void keeps_running(bool keeps);  // as Timer::keeps_running

 private:
  struct State;
  explicit Phase(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nacre::event
