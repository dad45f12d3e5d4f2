// SPDX-License-Identifier: Apache-2.0
#include "task/subprocess.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

namespace nacre::task {
namespace {

tl::unexpected<SpawnError> not_begun(Error error) {
  return tl::unexpected(SpawnError{false, kExitNotExecutable, std::move(error)});
}

void discard_missing_stdio(Command& command) {
  for (int target : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    auto& fds = command.setup.fds;
    auto given = [target](const ChildSetup::Fd& fd) { return fd.target == target; };
    if (std::none_of(fds.begin(), fds.end(), given)) fds.push_back({target, -1});
  }
}

}  // namespace

Subprocess::Subprocess(event::Children& children, Command command, Callbacks callbacks)
    : children_(children),
      command_(std::move(command)),
      callbacks_(std::move(callbacks)),
      channels_({callbacks_.on_ready, [this](const std::string&) { complete_if_done(); }, callbacks_.on_room}) {}

tl::expected<std::unique_ptr<Subprocess>, SpawnError> Subprocess::start(event::Loop& loop,
                                                                        event::Children& children, Command command,
                                                                        Options options, Callbacks callbacks) {
  if (command.argv.empty()) return not_begun(invalid("no command"));
  std::unique_ptr<Subprocess> self(new Subprocess(children, std::move(command), std::move(callbacks)));
  std::vector<std::string> names = std::move(options.streams);
  names.insert(names.end(), self->command_.channels.begin(), self->command_.channels.end());
  for (const std::string& name : names) {
    if (Result<void> opened = self->channels_.open(loop, self->command_, name); !opened) {
      return not_begun(std::move(opened).error());
    }
  }
  if (!options.inherit_stdio) discard_missing_stdio(self->command_);
  auto spawned = Spawner().spawn(self->command_, options.hook);
  if (!spawned) return tl::unexpected(std::move(spawned).error());
  self->channels_.started();
  self->pid_ = spawned->pid;
  if (self->command_.setup.ends_with_parent) children.guard(self->pid_);
  children.watch(self->pid_, [raw = self.get()](const event::ChildExit& end) { raw->on_exit(end); });
  return self;
}

Subprocess::~Subprocess() {
  if (!exited_ && pid_ > 0) children_.forget(pid_);
}

Result<void> Subprocess::kill(int signum) const {
  if (exited_) return system_error(ESRCH, fmt::format("process {}", pid_));
  pid_t target = command_.setup.new_process_group ? -pid_ : pid_;
  if (::kill(target, signum) < 0) return system_error(errno, fmt::format("process {}", pid_));
  return {};
}

void Subprocess::on_exit(const event::ChildExit& end) {
  exited_ = true;
  status_ = value::WaitStatus::of_raw(end.status);
  usage_ = end.usage;
  if (callbacks_.on_exit) callbacks_.on_exit();
  complete_if_done();
}

// Must come last, as the callback may destroy this object.
void Subprocess::complete_if_done() {
  if (!exited_ || complete_ || channels_.reading()) return;
  complete_ = true;
  if (callbacks_.on_complete) callbacks_.on_complete();
}

}  // namespace nacre::task
