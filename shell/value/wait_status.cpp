// SPDX-License-Identifier: Apache-2.0
#include "value/wait_status.hpp"

#include "base/text.hpp"

namespace nacre::value {
namespace {

struct Named {
  int signum;
  std::string_view name;
};

// If a number has several names, the first one is shown.
constexpr std::array<Named, 34> kSignals = {{
    {SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
    {SIGABRT, "ABRT"},     {SIGBUS, "BUS"},   {SIGFPE, "FPE"},     {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
    {SIGSEGV, "SEGV"},     {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"},   {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
    {SIGSTKFLT, "STKFLT"}, {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},
    {SIGTTIN, "TTIN"},     {SIGTTOU, "TTOU"}, {SIGURG, "URG"},     {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
    {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGIO, "IO"},     {SIGPWR, "PWR"},
    {SIGSYS, "SYS"},       {SIGABRT, "IOT"},  {SIGIO, "POLL"},     {SIGCHLD, "CLD"},
}};

constexpr int kExitShift = 8;  // the kernel's position of the exit code

// `distance` is "", or SIGN and a number: the distance from `base` in the direction of SIGN. 0 if this is no
// real-time signal.
int realtime(int base, std::string_view distance, char sign) {
  if (distance.empty()) return base;
  if (distance.front() != sign) return 0;
  auto n = parse_u64(distance.substr(1));
  if (!n || *n > static_cast<std::uint64_t>(SIGRTMAX - SIGRTMIN)) return 0;
  int away = static_cast<int>(*n);
  return sign == '+' ? base + away : base - away;
}

}  // namespace

WaitStatus WaitStatus::exited(int code) { return WaitStatus((code & 0xff) << kExitShift); }

int WaitStatus::signal() const { return is_signal() ? WTERMSIG(raw_) : 0; }

bool WaitStatus::dumped_core() const { return is_signal() && WCOREDUMP(raw_); }

std::string WaitStatus::str() const {
  if (is_exit()) return fmt::format("exited with code {}", exit_code());
  if (is_signal())
    return fmt::format("killed by {}{}", signal_name(signal()), dumped_core() ? " (core dumped)" : "");
  return fmt::format("has not ended (wait status {:#x})", raw_);
}

std::string signal_name(int signum) {
  for (const Named& each : kSignals) {
    if (each.signum == signum) return fmt::format("SIG{}", each.name);
  }
  if (signum == SIGRTMIN) return "SIGRTMIN";
  if (signum > SIGRTMIN && signum <= SIGRTMAX) return fmt::format("SIGRTMIN+{}", signum - SIGRTMIN);
  return fmt::format("signal {}", signum);
}

int signal_number(std::string_view name) {
  if (auto n = parse_u64(name)) return *n <= static_cast<std::uint64_t>(SIGRTMAX) ? static_cast<int>(*n) : 0;
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  std::string_view key = upper;
  if (key.starts_with("SIG")) key.remove_prefix(3);
  for (const Named& each : kSignals) {
    if (each.name == key) return each.signum;
  }
  if (key.starts_with("RTMIN")) return realtime(SIGRTMIN, key.substr(5), '+');
  if (key.starts_with("RTMAX")) return realtime(SIGRTMAX, key.substr(5), '-');
  return 0;
}

}  // namespace nacre::value
