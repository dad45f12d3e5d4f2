// SPDX-License-Identifier: Apache-2.0
#include "plugin/sudden_end.hpp"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "base/current_call.hpp"
#include "plugin/crash.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugin {
namespace {

constexpr std::array kEndSignals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};

// A signal handler has no argument of its own. All these signals are blocked while one is handled.
std::array<struct sigaction, kEndSignals.size()> before;
std::atomic<std::uint64_t> first_calls = 0;
std::atomic<std::uint64_t> first_turns = 0;
std::atomic<std::int64_t> first_at = 0;
std::atomic<pid_t> watched_process = 0;

std::int64_t nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

bool is_second() {
  CallPage::Place place = CallPage::own().place();
  if (!place.within_call()) return false;
  std::int64_t now = nanoseconds();
  if (place.calls == first_calls && place.turns == first_turns) return now - first_at >= SecondSignal::kApart;
  first_calls = place.calls;
  first_turns = place.turns;
  first_at = now;
  return false;
}

void on_signal(int signum, siginfo_t* info, void* context) {
  int code = errno;
  std::size_t index = 0;
  while (kEndSignals[index] != signum) ++index;
  if (is_second()) {
    const CallPage& page = CallPage::own();
    LastLine line;
    line << "plugin '" << page.plugin() << "' does not return from " << page.topic() << ": ended by a second "
         << "SIG" << ::sigabbrev_np(signum);
    line.write();
    end_at_once(value::kSignalBase + signum);
  }
  const struct sigaction& next = before[index];
  if ((next.sa_flags & SA_SIGINFO) != 0) {
    next.sa_sigaction(signum, info, context);
  } else {
    next.sa_handler(signum);
  }
  errno = code;
}

// Only signals that have a handler are replaced, so that none is caught that is not expected.
bool is_caught(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void on_exit_called(int status, void* /*unused*/) {
  const CallPage& page = CallPage::own();
  if (watched_process != ::getpid() || !page.place().within_call()) return;
  LastLine line;
  line << "plugin '" << page.plugin() << "' called exit(" << status << ") in " << page.topic();
  line.write();
  end_at_once(1);
}

}  // namespace

Result<std::unique_ptr<SecondSignal>> SecondSignal::create(event::Loop& loop) {
  CallPage& page = CallPage::own();
  auto turns = TRY(event::Phase::create(loop, event::Phase::When::check, [&page] { page.turned(); }));
  turns.keeps_running(false);
  turns.start();
  return std::unique_ptr<SecondSignal>(new SecondSignal(std::move(turns)));
}

SecondSignal::SecondSignal(event::Phase turns) : turns_(std::move(turns)) {
  first_calls = 0;  // an even number: no call runs
  for (std::size_t i = 0; i < kEndSignals.size(); ++i) {
    ::sigaction(kEndSignals[i], nullptr, &before[i]);
    if (!is_caught(before[i])) continue;
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigfillset(&action.sa_mask);
    ::sigaction(kEndSignals[i], &action, nullptr);
  }
}

SecondSignal::~SecondSignal() {
  for (std::size_t i = 0; i < kEndSignals.size(); ++i) {
    if (is_caught(before[i])) ::sigaction(kEndSignals[i], &before[i], nullptr);
  }
}

void watch_for_exit() {
  CallPage::own();
  if (watched_process.exchange(::getpid()) == 0) ::on_exit(on_exit_called, nullptr);
}

}  // namespace nacre::plugin
