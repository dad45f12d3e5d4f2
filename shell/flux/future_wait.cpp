// SPDX-License-Identifier: Apache-2.0
//
// <flux/future.h>: waiting for a future within a call.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "flux/future.hpp"
#include "flux/handle.hpp"
#include "job/option_types.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr double kAnswerTimeout = 60;  // seconds; the default of the option rpc-timeout
constexpr event::Seconds kLook{0.01};  // how often a loop beside the shell's is run

// One call of flux_future_wait_for(3). The future's own loop runs, and the messages of its handle are dispatched.
// While a call to another shell is open, the shell's loop runs, too.
class Wait {
 public:
  Wait(flux_future& f, event::Loop& own) : future_(f), own_(own), shell_(current_shell()) {}

  // 0, or -1 with errno. A negative `timeout`: none but that of answers of other shells.
  int run(double timeout);

 private:
  Result<void> prepare(double timeout);
  Result<void> prepare_shell();
  int round_with_shell();
  [[nodiscard]] Result<double> answer_timeout() const;
  int give_up();

  flux_future& future_;
  event::Loop& own_;
  flux_shell* shell_;
  flux_t* handle_ = nullptr;  // whose messages are dispatched
  double deadline_ = -1;      // as own_.now(); negative: none
  bool was_ending_ = false;
  bool late_ = false;
  bool is_unanswered_ = false;                // late by the time that other shells are given
  std::optional<event::Timer> timer_;         // on own_
  UniqueFd messages_;                         // a copy, of an interthread handle
  std::optional<event::Poll> waking_;         // on own_
  std::optional<event::Timer> shells_timer_;  // on the shell's loop
  std::optional<event::Timer> look_;          // the same: the own loop has to run again
};

Result<void> Wait::prepare(double timeout) {
  timer_.emplace(TRY(event::Timer::create(own_, [this] { late_ = true; })));
  if (timeout > 0) {
    timer_->start(event::Seconds(nacre::flux::never_early(timeout)));
    deadline_ = own_.now() + timeout;
  }
  bool is_link = future_.handle != nullptr && future_.handle->link != nullptr;
  if (is_link) {
    handle_ = &future_.handle->root();
  } else if (shell_ != nullptr) {
    handle_ = nacre::flux::handle_of(*shell_);
  }
  if (!is_link) return {};
  messages_ = UniqueFd(::dup(handle_->incoming.fd()));
  if (!messages_) return system_error(errno, "dup");
  waking_.emplace(TRY(event::Poll::create(own_, messages_.get(), [](int) {})));
  return waking_->start(event::Poll::kReadable);
}

int Wait::run(double timeout) {
  if (Result<void> prepared = prepare(timeout); !prepared) return fail(prepared.error().code);
  while (!future_.ready()) {
    if (handle_ != nullptr && handle_->dispatch()) continue;
    if (late_) return give_up();
    if (handle_ != nullptr && handle_->waits_for_others()) {
      if (round_with_shell() < 0) return -1;
    } else if (!own_.alive()) {
      return fail(EDEADLOCK);
    } else {
      own_.run_once();
    }
  }
  return 0;
}

int Wait::give_up() {
  if (is_unanswered_) {
    shell_->host.log().log(Level::warn, running_plugin_name(),
                           "another shell's answer has not come in time (rpc-timeout)");
  }
  return fail(ETIMEDOUT);
}

Result<double> Wait::answer_timeout() const {
  auto option = shell_->host.options().at("rpc-timeout");
  if (!option) return kAnswerTimeout;
  if (option->json() == "none") return value::Duration::infinite().seconds();
  return TRY(job::seconds_option(*option)).seconds();
}

Result<void> Wait::prepare_shell() {
  event::Loop& loop = shell_->host.loop();
  shells_timer_.emplace(TRY(event::Timer::create(loop, [this] { late_ = true; })));
  look_.emplace(TRY(event::Timer::create(loop, [] {})));
  was_ending_ = shell_->host.ending();
  double rest = deadline_ - own_.now();
  if (deadline_ < 0) {
    rest = TRY(answer_timeout());
    is_unanswered_ = true;
  }
  if (std::isfinite(rest)) shells_timer_->start(event::Seconds(std::max(rest, 0.0)));
  return {};
}

int Wait::round_with_shell() {
  Host& host = shell_->host;
  if (!shells_timer_) {
    if (host.loop().running()) {
      host.log().log(Level::warn, running_plugin_name(),
                     "in a callback no answer of another shell can be waited for: use flux_future_then");
      return fail(EDEADLOCK);
    }
    if (Result<void> prepared = prepare_shell(); !prepared) {
      host.log().log(Level::error, "", "{}", prepared.error().message);
      return fail(prepared.error().code);
    }
  }
  if (!was_ending_ && host.ending()) return fail(ECANCELED);
  timer_->keeps_running(false);
  own_.poll();
  if (own_.alive()) look_->start(kLook);
  timer_->keeps_running(true);
  if (!future_.ready() && !late_) host.loop().run_once();
  look_->stop();
  return 0;
}

}  // namespace

int flux_future_wait_for(flux_future_t* f, double timeout) {
  if (f == nullptr || f->waiting) return fail(EINVAL);
  if (f->ready()) return 0;
  if (timeout == 0) return fail(ETIMEDOUT);
  flux_reactor* reactor = f->now.reactor;
  if (reactor == nullptr && (reactor = flux_reactor_create(0)) == nullptr) return -1;
  flux_reactor_incref(reactor);
  if (f->now.reactor == nullptr) flux_reactor_decref(reactor);  // arm() takes a reference of its own
  flux_future_incref(f);
  f->waiting = true;
  Result<void> armed = f->arm(flux_future::When::now, reactor, {});
  int done = armed ? Wait(*f, *reactor->loop).run(timeout) : fail(armed.error().code);
  int saved = errno;
  f->waiting = false;
  flux_reactor_decref(reactor);
  flux_future_decref(f);
  errno = saved;
  return done;
}
