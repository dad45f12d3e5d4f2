// SPDX-License-Identifier: Apache-2.0
#include "join/guard.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/signals_blocked.hpp"

namespace nacre::join {
namespace {

GuardKind kind_of(event::Children::GroupState state) {
  using State = event::Children::GroupState;
  return state == State::led    ? GuardKind::group
         : state == State::left ? GuardKind::left_group
                                : GuardKind::no_group;
}

}  // namespace

Result<std::unique_ptr<Guard>> Guard::start(event::Children& children, const Options& options) {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  // The shell must never wait for the guard.
  ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
  GuardDuty duty;
  duty.records = pipe.read.get();
  duty.starter = options.starter;
  duty.shell = ::getpid();
  duty.session = ::getsid(0);
  duty.mark = options.mark;
  duty.watched = options.watched;
  if (options.socket != nullptr) {
    duty.socket = options.socket->socket();
    duty.socket_folder = options.socket->path();
  }
  duty.calls = &CallPage::own();
  pid_t pid = -1;
  {
    SignalsBlocked blocked;  // the child keeps them blocked: no signal ends it
    pid = ::fork();
    if (pid == 0) run_guard(duty);
  }
  if (pid < 0) return system_error(errno, "cannot start a process");
  std::unique_ptr<Guard> out(new Guard(children, std::move(pipe.write), pid));
  // It is watched, so that it does not count as a process that has outlived a task.
  children.watch(pid, [self = out.get()](const event::ChildExit&) { self->pid_ = 0; });
  event::Children::Guarding guarding;
  guarding.group = [self = out.get()](pid_t leader, event::Children::GroupState state) {
    self->send(kind_of(state), {reinterpret_cast<const char*>(&leader), sizeof leader});
  };
  guarding.directory = [self = out.get()](const std::string& path, bool there) {
    if (there) {
      self->directories_.insert(path);
    } else {
      self->directories_.erase(path);
    }
    self->send(there ? GuardKind::directory : GuardKind::no_directory, path);
  };
  guarding.entry = [self = out.get()](const std::string& path, bool there) {
    self->send(GuardKind::entry, there ? path : "");
  };
  children.set_guard(std::move(guarding));
  return out;
}

Guard::~Guard() {
  children_.set_guard({});
  if (pid_ == 0) return;
  children_.forget(pid_);
  // When the pipe closes the guard does what this process could not.
  if (!directories_.empty() || has_command_) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::set_command(const std::vector<std::string>& words) {
  has_command_ = !words.empty();
  std::string text;
  for (const std::string& each : words) text += each + '\0';
  send(GuardKind::command, text);
}

// Ignores errors: a guard that is gone, or does not read, is missed only if the shell is killed too.
void Guard::send(GuardKind kind, std::string_view body) {
  std::string record = guard_record(kind, body);
  [[maybe_unused]] ssize_t written = ::write(to_.get(), record.data(), record.size());
}

}  // namespace nacre::join
