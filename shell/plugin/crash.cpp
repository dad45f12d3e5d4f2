// SPDX-License-Identifier: Apache-2.0
#include "plugin/crash.hpp"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "value/wait_status.hpp"

namespace nacre::plugin {
namespace {

constexpr std::array kCrashSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr std::size_t kStackSize = std::size_t{64}
                                   << 10;  // bytes; a handler needs a few hundred, a frame of AVX-512 some KB

std::atomic<const std::string*> running_plugin = nullptr;
std::atomic<const std::string*> running_topic = nullptr;
std::atomic<void (*)(void*)> last_act = nullptr;
std::atomic<void*> last_act_of = nullptr;
std::atomic<pid_t> last_act_in = 0;
std::atomic<bool> parent_names_crashes = false;
std::array<struct sigaction, kCrashSignals.size()> previous;
alignas(16) std::array<std::byte, kStackSize> handler_stack;

void on_crash(int signum, siginfo_t* info, void* /*context*/) {
  std::size_t index = 0;
  while (kCrashSignals[index] != signum) ++index;
  const std::string* plugin = running_plugin.load();
  if (plugin == nullptr || parent_names_crashes) {
    ::sigaction(signum, &previous[index], nullptr);
    // A fault occurs again when this returns; a signal that was sent does not.
    if (info->si_code <= 0) ::raise(signum);
    return;
  }
  const std::string* topic = running_topic.load();
  LastLine line;
  line << "plugin '" << std::string_view(*plugin).substr(0, 128) << "' crashed in "
       << std::string_view(*topic).substr(0, 128) << " (SIG" << ::sigabbrev_np(signum) << ")";
  line.write();
  end_at_once(1);
}

}  // namespace

void leave_crashes_to_parent() { parent_names_crashes.store(true); }

void set_last_act(void (*act)(void* of), void* of) {
  last_act_of.store(of);
  last_act_in.store(::getpid());
  last_act.store(act);
}

void end_at_once(int code) {
  if (last_act_in == ::getpid()) {
    CallPage::own().set_reported();
    if (auto* act = last_act.load(); act != nullptr) act(last_act_of);
  }
  ::_exit(code);
}

CrashGuard::CrashGuard() {
  stack_t before{};
  ::sigaltstack(nullptr, &before);
  if ((before.ss_flags & SS_DISABLE) != 0) {
    stack_t ours{};
    ours.ss_sp = handler_stack.data();
    ours.ss_size = handler_stack.size();
    own_stack_ = ::sigaltstack(&ours, nullptr) == 0;
  }
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_ONSTACK | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) ::sigaction(kCrashSignals[i], &action, &previous[i]);
}

CrashGuard::~CrashGuard() {
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) ::sigaction(kCrashSignals[i], &previous[i], nullptr);
  if (!own_stack_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
}

CrashScope::CrashScope(const std::string& plugin, const std::string& topic)
    : call_(plugin, topic), outer_plugin_(running_plugin.load()), outer_topic_(running_topic.load()) {
  // The plugin comes last: so if there is a plugin there is a topic.
  running_topic.store(&topic);
  running_plugin.store(&plugin);
}

std::string running_plugin_name() {
  const std::string* name = running_plugin.load();
  return name != nullptr ? *name : "?";
}

CrashScope::~CrashScope() {
  running_plugin.store(outer_plugin_);
  running_topic.store(outer_topic_);
}

// ---- sudden end -------------------------------------------------------------------------

namespace {

constexpr std::array kEndSignals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};

// A signal handler has no argument of its own. All these signals are blocked while one is handled.
std::array<struct sigaction, kEndSignals.size()> actions_before;
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
  const struct sigaction& next = actions_before[index];
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
    ::sigaction(kEndSignals[i], nullptr, &actions_before[i]);
    if (!is_caught(actions_before[i])) continue;
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigfillset(&action.sa_mask);
    ::sigaction(kEndSignals[i], &action, nullptr);
  }
}

SecondSignal::~SecondSignal() {
  for (std::size_t i = 0; i < kEndSignals.size(); ++i) {
    if (is_caught(actions_before[i])) ::sigaction(kEndSignals[i], &actions_before[i], nullptr);
  }
}

void watch_for_exit() {
  CallPage::own();
  if (watched_process.exchange(::getpid()) == 0) ::on_exit(on_exit_called, nullptr);
}

}  // namespace nacre::plugin
