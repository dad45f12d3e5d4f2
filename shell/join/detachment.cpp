// SPDX-License-Identifier: Apache-2.0
#include "join/detachment.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/file.hpp"
#include "base/heap_buffer.hpp"
#include "base/print.hpp"
#include "base/variable.hpp"

namespace nacre::join {
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

Detachment::~Detachment() { give_back(); }

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

std::string Detachment::path() const { return directory_ + "/" + id_.f58_plain() + ".out"; }

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

}  // namespace nacre::join
