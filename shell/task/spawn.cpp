// SPDX-License-Identifier: Apache-2.0
#include "task/spawn.hpp"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "base/current_call.hpp"
#include "base/signals_blocked.hpp"
#include "base/unique_fd.hpp"
#include "task/child.hpp"
#include "task/failure.hpp"

namespace nacre::task {
namespace {

// A child, and what failed in it, if anything did.
struct Started {
  pid_t pid = 0;
  Failure failure;
  UniqueFd io = {};
};

// The two ends of the socket over which a child sends its /proc/self/io.
class IoSocket {
 public:
  // None where there are no more descriptors, or none is wanted: the task then starts without.
  IoSocket(const Command& command, Plan& plan) {
    int ends[2] = {-1, -1};
    if (!command.setup.opens_io || ::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0) return;
    parents_ = UniqueFd(ends[0]);
    childs_ = UniqueFd(ends[1]);
    plan.io_socket = childs_.get();
  }

  // Once the child has executed.
  [[nodiscard]] UniqueFd take() const {
    if (!parents_) return {};
    char one = 0;
    iovec bytes{&one, sizeof one};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(parents_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return {};
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return UniqueFd(fd);
  }

 private:
  UniqueFd parents_, childs_;
};

// A Failure in memory that a child of vfork shares. It is volatile, as the compiler cannot see that the child's
// write reaches the parent's read.
class SharedFailure {
 public:
  void put(const Failure& failure) {
    step_ = failure.step;
    code_ = failure.code;
    detail_ = failure.detail;
  }
  [[nodiscard]] Failure get() const { return {step_, code_, detail_}; }

 private:
  volatile Step step_ = Step::none;
  volatile int code_ = 0;
  volatile int detail_ = 0;
};

// ---- vfork -------------------------------------------------------------------

Failure run_shared(Plan& plan, Image& image) {
  if (Failure failure = set_up(plan); failure.step != Step::none) return failure;
  reset_signals(plan);
  return execute(image);
}

// The child must not return from the function that calls vfork, so this one does nothing else.
[[gnu::noinline]] pid_t vfork_child(Plan& plan, Image& image, SharedFailure& failure) {
  pid_t pid = ::vfork();
  if (pid == 0) {
    failure.put(run_shared(plan, image));
    ::_exit(kExitNotExecutable);
  }
  return pid;
}

// When vfork returns here, the child has executed or ended.
Result<Started> start_shared(const Command& command, const std::vector<int>& changed) {
  Plan plan(command, changed);
  Image image(command);
  IoSocket io(command, plan);
  SharedFailure failure;
  SignalsBlocked blocked;
  pid_t pid = vfork_child(plan, image, failure);
  if (pid < 0) return fork_error(errno);
  return Started{pid, failure.get(), io.take()};
}

// ---- fork --------------------------------------------------------------------

Failure run_own(Plan& plan, const Command& command, const Spawner::ChildHook& hook) {
  if (Failure failure = set_up(plan); failure.step != Step::none) return failure;
  reset_signals(plan);
  if (hook) {
    if (!hook()) return {Step::hook, ECANCELED, 0};
    std::fflush(stdout);  // exec would lose what the hook has printed
  }
  Image image(command);  // only now: the hook may have changed the command
  if (command.setup.trace_me) {
    if (Failure failure = trace_me(); failure.step != Step::none) return failure;
  }
  return execute(image);
}

// Waits until a traced child stops in exec, and detaches from it, so that it stays stopped. A child that ends
// before that is left to be reaped.
void leave_stopped_in_exec(pid_t pid) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WSTOPPED | WNOWAIT) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (info.si_code != CLD_TRAPPED) return;
    if (info.si_status == SIGTRAP) {
      ::ptrace(PTRACE_DETACH, pid, nullptr, SIGSTOP);
      return;
    }
    // a signal that was sent between PTRACE_TRACEME and exec
    ::ptrace(PTRACE_CONT, pid, nullptr, info.si_status);
  }
}

// The child's Failure, or none once it has executed: exec closes the child's end of the pipe.
Failure read_failure(int fd) {
  Failure failure;
  while (::read(fd, &failure, sizeof failure) < 0 && errno == EINTR) {
  }
  return failure;
}

Result<Started> start_forked(const Command& command, const std::vector<int>& changed,
                             const Spawner::ChildHook& hook) {
  Plan plan(command, changed);
  // If the hook ends, the child itself names the plugin.
  const std::string no_plugin = "?";
  const std::string starting = "the start of a process";
  std::optional<CurrentCall> waiting;
  if (hook) {
    plan.keep_crash_handlers();
    waiting.emplace(no_plugin, starting);
  }
  IoSocket io(command, plan);
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  // Its number is above the child's own descriptors, which would replace it.
  UniqueFd report(::fcntl(pipe.write.get(), F_DUPFD_CLOEXEC, plan.max_target + 1));
  if (!report) return system_error(errno, "pipe");
  pipe.write.reset();
  plan.keep(report.get());
  std::fflush(stdout);  // otherwise the child would print it too
  pid_t pid = -1;
  {
    SignalsBlocked blocked;
    pid = ::fork();
    if (pid == 0) {
      Failure failure = run_own(plan, command, hook);
      [[maybe_unused]] ssize_t written = ::write(report.get(), &failure, sizeof failure);
      ::_exit(kExitNotExecutable);
    }
  }
  if (pid < 0) return fork_error(errno);
  report.reset();
  if (command.setup.trace_me) leave_stopped_in_exec(pid);
  Failure failure = read_failure(pipe.read.get());
  return Started{pid, failure, io.take()};
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

int exec_failure_code(int error_code) {
  return error_code == ENOENT || error_code == ENOTDIR ? kExitNotFound : kExitNotExecutable;
}

tl::expected<Spawned, SpawnError> spawn(const Command& command, const std::vector<int>& changed,
                                        const Spawner::ChildHook& hook) {
  if (command.argv.empty()) return tl::unexpected(SpawnError{.error = invalid("expected a command, got none")});
  // A traced child may stop before it executes, and a parent in vfork would not see that.
  bool own_memory = hook || command.setup.trace_me;
  Result<Started> started = own_memory ? start_forked(command, changed, hook) : start_shared(command, changed);
  if (!started) return tl::unexpected(SpawnError{.error = std::move(started).error()});
  if (started->failure.step != Step::none) {
    reap(started->pid);
    int exit_code =
        started->failure.step == Step::exec ? exec_failure_code(started->failure.code) : kExitNotExecutable;
    return tl::unexpected(SpawnError{true, exit_code, describe(command, started->failure)});
  }
  return Spawned{started->pid, std::move(started->io)};
}

tl::expected<Spawned, SpawnError> Spawner::spawn(const Command& command, const ChildHook& hook) const {
  return task::spawn(command, changed_signals(), hook);
}

}  // namespace nacre::task
