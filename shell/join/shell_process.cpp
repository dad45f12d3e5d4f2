// SPDX-License-Identifier: Apache-2.0
#include "join/shell_process.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "event/clock.hpp"

namespace nacre::join {

// ---- later shells -----------------------------------------------------------------------

namespace {

constexpr const char* kManaged = "srun";

}  // namespace

LaterShells::LaterShells(launch::LaunchRecord own, boot::Way way)
    : record(std::move(own)),
      is_managed(way == boot::Way::slurm || record.agent == std::vector<std::string>{kManaged}),
      only_pods(way == boot::Way::index),
      addresses(record.addresses) {
  record.jobspec.reset();
  record.resources.reset();
  if (is_managed) record.agent = {kManaged};  // other hosts: the shells listen for links from there
}

void LaterShells::keep(LeaderGiven leaders) {
  given = std::move(leaders);
  given.resources.reset();
}

std::string LaterShells::lines_of(group::Rank rank, std::string resources, bool is_made, std::string growth,
                                  bool hands_over) const {
  launch::LaunchRecord out = record.of_child(rank, addresses.at(*record.rank));
  out.addresses = addresses;
  out.leader = hands_over ? record.rank : std::nullopt;
  if (given.jobspec) out.jobspec = given.jobspec->text;
  out.resources = std::move(resources);
  out.makes_resources = is_made;
  out.options = given.options;
  out.growth = std::move(growth);
  return launch::launch_lines(*secret, out.line());
}

// ---- kept signals -----------------------------------------------------------------------

namespace {

bool stops(int signum) { return signum == SIGSTOP || signum == SIGTSTP || signum == SIGTTIN || signum == SIGTTOU; }

}  // namespace

void KeptSignals::keep(int signum) {
  auto replaced = [signum](int each) {
    return each == signum || (signum == SIGCONT && stops(each)) || (stops(signum) && each == SIGCONT);
  };
  signals_.erase(std::remove_if(signals_.begin(), signals_.end(), replaced), signals_.end());
  signals_.push_back(signum);
}

// ---- signals ----------------------------------------------------------------------------

namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

}  // namespace

Result<std::unique_ptr<Signals>> Signals::watch(event::Loop& loop) {
  std::unique_ptr<Signals> out(new Signals());
  std::signal(SIGPIPE, SIG_IGN);  // write(2) reports it
  auto on_signal = [self = out.get()](int signum) { self->received(signum, self->from_system_); };
  for (int signum : kEnding) {
    // nohup(1) ignores SIGHUP on purpose. SIGINT and SIGQUIT may only be ignored because a shell without job
    // control started this process in the background.
    if (signum == SIGHUP && ignores_signal(SIGHUP)) continue;
    auto watcher = TRY(event::SignalWatcher::create(loop, signum, on_signal));
    watcher.keeps_running(false);
    out->watchers_.push_back(std::move(watcher));
  }
  return out;
}

void Signals::note_sent(int signum) { sent_at_[signum] = event::clock_now(); }

bool Signals::is_repeated(int signum) const {
  auto sent = sent_at_.find(signum);
  bool is_recent = sent != sent_at_.end() && event::clock_now() - sent->second < kAtOneTime;
  return from_system_ == From::launcher && is_recent;
}

bool Signals::is_ending(int signum) {
  return std::find(std::begin(kEnding), std::end(kEnding), signum) != std::end(kEnding);
}

void Signals::serve(OnSignal on_signal) {
  on_signal_ = std::move(on_signal);
  if (!on_signal_) return;
  for (auto [signum, from] : std::exchange(kept_, {})) on_signal_(signum, from);
}

void Signals::received(int signum, From from) {
  if (!on_signal_) {
    kept_.emplace_back(signum, from);
    return;
  }
  OnSignal handle = on_signal_;  // a copy: the handler may install another one
  handle(signum, from);
}

// ---- detachment -------------------------------------------------------------------------

namespace {

constexpr char kGone = 'd';  // what the old process is sent
constexpr std::size_t kCopyPiece = std::size_t{64} << 10;

// The old process: it holds nothing but the pipe, so that its end is all that the launcher waits for.
[[noreturn]] void wait_for_leader(pid_t leader, int fd) {
  ::dup2(fd, STDIN_FILENO);
  close_from(STDIN_FILENO + 1);
  char got = 0;
  ssize_t size = -1;
  do size = ::read(STDIN_FILENO, &got, 1);
  while (size < 0 && errno == EINTR);
  if (size == 1 && got == kGone) ::_exit(0);
  int status = 0;
  while (::waitpid(leader, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
  rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  std::signal(WTERMSIG(status), SIG_DFL);
  std::raise(WTERMSIG(status));
  ::_exit(1);
}

}  // namespace

Result<void> Detachment::fork_leader() {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  CHECK_OK(flush_out());
  pid_t pid = ::fork();
  if (pid < 0) return system_error(errno, "cannot start a process");
  if (pid > 0) wait_for_leader(pid, pipe.read.get());
  ::setsid();
  waiting_ = std::move(pipe.write);
  return {};
}

Result<void> Detachment::open() {
  if (file_) return {};
  place_ = TRY(record::EntryDirectory::choose(record::places(own_variable), nullptr));
  file_ = TRY(place_->open_output(id_));
  directory_ = place_->path();
  return {};
}

Result<void> Detachment::take_streams() {
  CHECK_OK(open());
  static_cast<void>(flush_out());  // nobody may read that any more
  before_ = UniqueFd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  for (int each : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::dup2(file_.get(), each) < 0) return system_error(errno, path());
  }
  return {};
}

void Detachment::let_go() {
  detached_ = true;
  before_.reset();
  if (!waiting_) return;
  [[maybe_unused]] ssize_t written = ::write(waiting_.get(), &kGone, 1);  // else it sees that the pipe is closed
  waiting_.reset();
}

void Detachment::give_back() {
  if (detached_ || !place_ || !before_) return;
  static_cast<void>(flush_out());
  auto file = place_->read_output(id_);
  HeapBuffer<kCopyPiece> buffer;
  ssize_t got = file ? ::read(file->get(), buffer.data(), buffer.size()) : 0;
  while (got > 0) {
    static_cast<void>(write_all(before_.get(), {buffer.data(), static_cast<std::size_t>(got)}));
    got = ::read(file->get(), buffer.data(), buffer.size());
  }
  ::dup2(before_.get(), STDERR_FILENO);
  before_.reset();
  static_cast<void>(place_->remove_output(id_));
}

// ---- launcher input ---------------------------------------------------------------------

Result<std::unique_ptr<LauncherInput>> LauncherInput::create(event::Loop& loop) {
  std::unique_ptr<LauncherInput> out(new LauncherInput());
  LauncherInput* self = out.get();
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  if (::dup2(pipe.read.get(), STDIN_FILENO) < 0) return system_error(errno, "standard input");
  self->pipe_ = std::move(pipe.write);
  io::FdSink::Callbacks callbacks;
  callbacks.on_room = [self] { self->go_on(); };
  callbacks.on_error = [self](const Error&) { self->go_on(); };
  self->sink_ = TRY(io::FdSink::create(loop, self->pipe_.get(), "the launcher's input", {}, std::move(callbacks)));
  self->end_timer_ = TRY(event::Timer::create(loop, [self] {
    self->sink_.reset();
    self->pipe_.reset();
  }));
  return out;
}

void LauncherInput::take(std::string_view bytes) {
  if (!is_given_ && !put(bytes) && stream_ != nullptr) stream_->want_input(false);
}

void LauncherInput::end() {
  if (!is_given_) finish();
}

void LauncherInput::let_go() {
  take_held();
  stream_ = nullptr;
  if (!is_given_) leave();
}

// What the stream holds is the launcher's: it was sent before.
void LauncherInput::take_held() {
  if (is_given_ || stream_ == nullptr) return;
  launch::LaunchStream::Held held = stream_->take_held();
  if (!held.bytes.empty()) put(held.bytes);
  if (held.ended) finish();
}

void LauncherInput::give(std::function<void()> on_room) {
  take_held();
  is_given_ = true;
  on_room_ = std::move(on_room);
  if (stream_ != nullptr) stream_->want_input(true);
}

// After an error the input has no reader any more, and it is dropped.
bool LauncherInput::put(std::string_view bytes) {
  if (ended_) return true;
  std::array pieces{bytes};
  return !sink_->write(pieces) || !sink_->full();
}

void LauncherInput::end_given() {
  on_room_ = nullptr;
  finish();
}

void LauncherInput::leave() {
  on_room_ = nullptr;
  if (ends_with_owner_) finish();
}

void LauncherInput::finish() {
  if (std::exchange(ended_, true)) return;
  go_on();
}

// The pipe must not be closed within a call of its sink.
void LauncherInput::go_on() {
  if (ended_) {
    if (sink_ && sink_->flushed()) end_timer_->start(event::Seconds::zero());
  } else if (!sink_->full()) {
    if (on_room_) on_room_();
    if (stream_ != nullptr && !is_given_) stream_->want_input(true);
  }
}

}  // namespace nacre::join
