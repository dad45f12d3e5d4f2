// SPDX-License-Identifier: Apache-2.0
#include "plugins/health/check_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/signals.hpp"
#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "value/duration.hpp"

namespace nacre::plugins {
namespace {

constexpr int kCheckNotExecuted = 126;

// Runs in the child, with all signals blocked.
[[noreturn]] void run_check(const std::function<int()>& act, int output, pid_t shell) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shell) ::_exit(kCheckNotExecuted);
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  close_from(STDERR_FILENO + 1);
  for (int signum = 1; signum < NSIG; ++signum) std::signal(signum, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::_exit(act());
}

}  // namespace

std::string CheckProcess::Outcome::why(event::Seconds most) const {
  if (is_late) return "took longer than " + value::Duration::of_seconds(most.count()).str();
  std::string line = exits::last_line_of(output);
  return line.empty() ? status.str() : line;
}

CheckProcess::~CheckProcess() { kill(); }

Result<void> CheckProcess::start(const std::function<int()>& act, event::Seconds most, WhenDone done) {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  output_ = std::move(pipe.read);
  limit_ = TRY(event::Timer::create(host_.loop(), [this] { end(true, {}); }));
  poll_ = TRY(event::Poll::create(host_.loop(), output_.get(), [this](int) { read(); }));
  CHECK_OK(poll_->start(event::Poll::kReadable));
  const pid_t shell = ::getpid();
  {
    SignalsBlocked blocked;
    pid_ = ::fork();
    if (pid_ == 0) run_check(act, pipe.write.get(), shell);
  }
  if (pid_ < 0) return system_error(errno, "cannot start a process");
  done_ = std::move(done);
  began_ = event::clock_now();
  host_.children().watch(pid_, [this](const event::ChildExit& exit) {
    pid_ = -1;
    end(false, value::WaitStatus::of_raw(exit.status));
  });
  limit_->start_grace(most);
  return {};
}

// What its own processes hold open is not waited for.
void CheckProcess::read() {
  char some[4096];
  for (;;) {
    const ssize_t size = ::read(output_.get(), some, sizeof some);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0) poll_->stop();
    if (size <= 0) return;
    outcome_.output.append(some, static_cast<std::size_t>(size));
    if (outcome_.output.size() > kMostOutput) outcome_.output.erase(0, outcome_.output.size() - kMostOutput);
  }
}

// One that waits in the kernel does not end: nobody waits for it.
void CheckProcess::kill() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  host_.children().leave_alone(pid_);
  host_.children().forget(pid_);
  pid_ = -1;
}

void CheckProcess::end(bool is_late, const value::WaitStatus& status) {
  read();
  kill();
  outcome_.is_late = is_late;
  outcome_.status = status;
  outcome_.took = event::clock_now() - began_;
  limit_->stop();
  poll_->stop();
  done_(outcome_);
}

std::function<int()> shell_command(std::string command, std::string directory,
                                   std::vector<std::string> environment) {
  return [command = std::move(command), directory = std::move(directory), environment = std::move(environment)] {
    std::vector<const char*> variables;
    for (const std::string& each : environment) variables.push_back(each.c_str());
    variables.push_back(nullptr);
    const char* here[] = {"/bin/sh", "-c", command.c_str(), "health", nullptr};
    const char* there[] = {
        "/bin/sh",       "-c",   R"(cd -- "$1" && exec /bin/sh -c "$2" health)", "health", directory.c_str(),
        command.c_str(), nullptr};
    const char** argv = directory.empty() ? here : there;
    ::execve(argv[0], const_cast<char**>(argv), const_cast<char**>(variables.data()));  // NOLINT
    return kCheckNotExecuted;
  };
}

}  // namespace nacre::plugins
