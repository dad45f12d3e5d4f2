// SPDX-License-Identifier: Apache-2.0
#include "guard.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "base/signals_blocked.hpp"

namespace nacre {
namespace {

constexpr const char* kGuardProcess = "nacre-guard";  // as ps shows it: at most 15 bytes
constexpr int kRounds = 200;                          // looks for what is left
constexpr useconds_t kBetween = 10000;                // microseconds

// Of /proc/PID/stat, proc(5): the state, the group and the session stand behind the name, which ends with the last ')'.
bool of_groups(const char* pid, const std::set<pid_t>& groups, pid_t session) {
  char path[64];
  char text[512];
  std::snprintf(path, sizeof path, "/proc/%s/stat", pid);
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : ::read(fd, text, sizeof text - 1);
  if (fd >= 0) ::close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  const char* behind = std::strrchr(text, ')');
  char state = 0;
  int parent = 0;
  int group = 0;
  int in_session = 0;
  if (behind == nullptr || std::sscanf(behind, ") %c %d %d %d", &state, &parent, &group, &in_session) != 4)
    return false;
  // A group of another session has only got a number that was one of ours.
  return state != 'Z' && groups.contains(group) && (in_session == session || in_session == group);
}

// Whether there was anything left.
bool kill_groups(const std::set<pid_t>& groups, pid_t session) {
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return false;
  bool some = false;
  while (const dirent* each = ::readdir(processes)) {
    if (each->d_name[0] < '1' || each->d_name[0] > '9' || !of_groups(each->d_name, groups, session)) continue;
    some = true;
    ::kill(static_cast<pid_t>(std::strtol(each->d_name, nullptr, 10)), SIGKILL);
  }
  ::closedir(processes);
  return some;
}

// In a forked child, with all signals blocked. Out of the session, and so of reach of what ends the shell's group.
[[noreturn]] void keep_guard(int from, pid_t session, const std::string& directory, const std::string& socket) {
  ::setsid();
  ::prctl(PR_SET_NAME, kGuardProcess, 0, 0, 0);
  [[maybe_unused]] int moved = ::chdir("/");
  ::dup2(from, 0);
  close_from(1);
  std::set<pid_t> groups;
  pid_t task = 0;
  for (;;) {
    ssize_t got = ::read(0, &task, sizeof task);  // written whole, as less than PIPE_BUF
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof task) break;
    groups.insert(task);
  }
  for (int round = 0; round < kRounds && !groups.empty() && kill_groups(groups, session); ++round)
    ::usleep(kBetween);
  if (!socket.empty()) ::unlink(socket.c_str());
  if (!directory.empty()) ::rmdir(directory.c_str());
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<Guard>> Guard::start(event::Children& children, const transport::SocketDirectory* socket) {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  pid_t session = ::getsid(0);
  std::string directory = socket != nullptr ? socket->path() : "";
  std::string file = socket != nullptr ? socket->socket() : "";
  pid_t pid = -1;
  {
    SignalsBlocked blocked;  // the child stays so: no signal ends it
    pid = ::fork();
    if (pid == 0) {
      ::close(pipe.write.get());
      keep_guard(pipe.read.get(), session, directory, file);
    }
  }
  if (pid < 0) return system_error(errno, "cannot start a process");
  std::unique_ptr<Guard> out(new Guard(children, std::move(pipe.write), pid));
  // Watched, it is none of those that have outlived a task.
  children.watch(pid, [self = out.get()](const event::ChildExit&) { self->pid_ = 0; });
  children.set_guard([self = out.get()](pid_t leader) { self->add(leader); });
  return out;
}

Guard::~Guard() {
  children_.set_guard({});
  if (pid_ == 0) return;
  children_.forget(pid_);
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// A guard that is gone is missed only if the shell is killed too.
void Guard::add(pid_t leader) { [[maybe_unused]] ssize_t written = ::write(to_.get(), &leader, sizeof leader); }

}  // namespace nacre
