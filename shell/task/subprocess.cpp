// SPDX-License-Identifier: Apache-2.0
#include "task/subprocess.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/text.hpp"

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
  auto self = prepare(loop, children, std::move(command), options, std::move(callbacks));
  if (!self) return not_begun(std::move(self).error());
  auto spawned = Spawner().spawn((*self)->command_, options.hook);
  if (!spawned) return tl::unexpected(std::move(spawned).error());
  (*self)->started(spawned->pid);
  return *std::move(self);
}

Result<std::unique_ptr<Subprocess>> Subprocess::prepare(event::Loop& loop, event::Children& children,
                                                        Command command, const Options& options,
                                                        Callbacks callbacks) {
  if (command.argv.empty()) return invalid("no command");
  std::unique_ptr<Subprocess> self(new Subprocess(children, std::move(command), std::move(callbacks)));
  CHECK_OK(self->open_streams(loop, options));
  if (!options.inherit_stdio) discard_missing_stdio(self->command_);
  return self;
}

void Subprocess::started(pid_t pid) {
  channels_.started();
  if (pty_) pty_->close_slave();
  pid_ = pid;
  if (command_.setup.ends_with_parent) children_.guard(pid_);
  children_.watch(pid_, [this](const event::ChildExit& end) { on_exit(end); });
}

Subprocess::~Subprocess() {
  if (!exited_ && pid_ > 0) children_.forget(pid_);
}

Result<void> Subprocess::kill(int signum) const {
  if (exited_ || pid_ <= 0) return system_error(ESRCH, fmt::format("process {}", pid_));
  bool leads = command_.setup.new_process_group || command_.setup.controlling_terminal;
  pid_t target = leads ? -pid_ : pid_;
  if (::kill(target, signum) < 0) return system_error(errno, fmt::format("process {}", pid_));
  return {};
}

Result<void> Subprocess::open_streams(event::Loop& loop, const Options& options) {
  std::vector<std::string> names = command_.channels;
  if (options.pty)
    CHECK_OK(open_pty(loop, *options.pty));
  else
    names.insert(names.begin(), options.streams.begin(), options.streams.end());
  for (const std::string& name : names) CHECK_OK(channels_.open(loop, command_, name));
  return {};
}

// The stream has a descriptor of its own, as it closes it by itself.
Result<void> Subprocess::open_pty(event::Loop& loop, const winsize& size) {
  pty_ = TRY(Pty::open(size));
  UniqueFd ours(::fcntl(pty_->master(), F_DUPFD_CLOEXEC, 3));
  if (!ours) return system_error(errno, "cannot share a terminal");
  CHECK_OK(channels_.add(loop, command_, "pty", std::move(ours)));
  command_.setup.controlling_terminal = true;
  for (int target : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    command_.setup.fds.push_back({target, pty_->slave()});
  return {};
}

void Subprocess::hang_up() {
  if (!pty_) return;
  pty_->hang_up();
  if (BufferedStream* stream = channels_.find("pty")) stream->hang_up();
  complete_if_done();
}

void Subprocess::on_exit(const event::ChildExit& end) {
  exited_ = true;
  status_ = value::WaitStatus::of_raw(end.status);
  usage_ = end.usage;
  is_given_up_ = end.given_up;
  if (callbacks_.on_exit) callbacks_.on_exit();
  complete_if_done();
}

// Must come last, as the callback may destroy this object.
void Subprocess::complete_if_done() {
  if (!exited_ || complete_ || (channels_.reading() && !is_given_up_)) return;
  complete_ = true;
  if (callbacks_.on_complete) callbacks_.on_complete();
}

// ---- command run ------------------------------------------------------------------------

namespace {

std::string last_line(std::string_view text) {
  std::string_view all = trim(text);
  return escape_controls(all.substr(all.rfind('\n') + 1));
}

}  // namespace

CommandRun::~CommandRun() {
  if (process_ && !process_->exited()) static_cast<void>(process_->kill(SIGKILL));
}

Result<void> CommandRun::start(What what, WhenDone done) {
  command_ = std::move(what.name);
  most_ = what.most;
  out_.clear();
  err_.clear();
  is_late_ = false;
  is_told_by_output_ = what.is_told_by_output;
  Command command{std::move(what.argv), job::Environment::own(), {}};
  command.setup.ends_with_parent = what.ends_with_shell;
  for (const auto& [name, value] : what.variables) command.env.set(name, value);
  limit_ = TRY(event::Timer::create(loop_, [this] {
    is_late_ = true;
    static_cast<void>(process_->kill(SIGKILL));  // it may have ended without having been reaped
  }));
  Subprocess::Callbacks callbacks;
  callbacks.on_ready = [this](const std::string&) { read(); };
  callbacks.on_complete = [this] { complete(); };
  auto started = Subprocess::start(loop_, children_, std::move(command), {}, std::move(callbacks));
  if (!started) return in(command_, Error(started.error().error));
  process_ = *std::move(started);
  done_ = std::move(done);
  limit_->start_grace(most_);
  return {};
}

void CommandRun::read() {
  for (auto [name, text] : {std::pair{"stdout", &out_}, std::pair{"stderr", &err_}}) {
    BufferedStream* stream = process_->stream(name);
    for (std::string_view some = stream->read(); !some.empty(); some = stream->read())
      text->append(some.substr(0, kMostText - text->size()));
  }
}

void CommandRun::complete() {
  read();
  limit_.reset();
  auto process = std::exchange(process_, nullptr);  // it lives to the end of this call
  auto done = std::exchange(done_, nullptr);
  const value::WaitStatus& status = process->status();
  if (is_late_) return done(Error{ETIMEDOUT, fmt::format("{}: took longer than {:g} s", command_, most_.count())});
  if (status.success()) return done(std::move(out_));
  std::string why = last_line(is_told_by_output_ && trim(err_).empty() ? out_ : err_);
  done(Error{ECANCELED, fmt::format("{}: {}{}", command_, status.str(), why.empty() ? "" : ": " + why)});
}

}  // namespace nacre::task
