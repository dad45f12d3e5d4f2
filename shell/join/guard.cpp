// SPDX-License-Identifier: Apache-2.0
#include "join/guard.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "base/signals.hpp"
#include "event/clock.hpp"
#include "record/places.hpp"

namespace nacre::join {
namespace {

GuardKind kind_of(event::Children::GroupState state) {
  using State = event::Children::GroupState;
  return state == State::led    ? GuardKind::group
         : state == State::left ? GuardKind::left_group
                                : GuardKind::no_group;
}

// Unlike a child of fork(2), this one sends no SIGCHLD when it ends, and only a wait with __WALL finds it. So a
// shell that asks the kernel for its children hears at once that it has none, and does not look for them in /proc.
pid_t fork_unseen() { return static_cast<pid_t>(::syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr)); }

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
    pid = options.has_plugins ? ::fork() : fork_unseen();
    if (pid == 0) run_guard(duty);
  }
  if (pid < 0) return system_error(errno, "cannot start a process");
  std::unique_ptr<Guard> out(new Guard(children, std::move(pipe.write), pid));
  // It is watched, so that it does not count as a process that has outlived a task.
  if (options.has_plugins) children.watch(pid, [self = out.get()](const event::ChildExit&) { self->pid_ = 0; });
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
  guarding.pruning = [self = out.get()](const std::string& path) { self->pruning_ = path; };
  children.set_guard(std::move(guarding));
  return out;
}

Guard::~Guard() {
  children_.set_guard({});
  if (pid_ == 0) return;
  children_.forget(pid_);
  // When the pipe closes the guard does what this process could not.
  if (!directories_.empty() || has_command_) return;
  if (!pruning_.empty()) {
    send(GuardKind::pruning, pruning_);
    return;
  }
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

void Guard::end_early() {
  if (pid_ != 0 && !has_rest()) ::kill(pid_, SIGKILL);
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

// ---- guard process ----------------------------------------------------------------------

namespace {

constexpr const char* kGuardProcess = "nacre-guard";  // as ps shows it: at most 15 bytes
constexpr int kRounds = 200;                          // of looking for processes that are left
constexpr useconds_t kBetween = 10000;                // microseconds
constexpr int kEndLooks = 1000;                       // whether the shell has ended ...
constexpr useconds_t kBetweenEndLooks = 1000;         // ... microseconds between them
constexpr int kLook = 250;                            // milliseconds between looks at an orphaned shell
constexpr int kWatch = 2000;                          // milliseconds between looks for a standstill of the shell
constexpr int kLooks = 2;              // so many looks, at least, have to find the shell in the same call
constexpr std::int64_t kStuck = 2000;  // milliseconds after which it counts as stuck
constexpr int kStoppedLooks = 8;       // so many looks in a row have to find the shell stopped
constexpr int kRemovals = 20;          // of a directory, as processes that were just killed may have added to it
constexpr std::size_t kHead = 3;       // bytes of a record before its body

// ---- the processes that end with the shell -----------------------------------------

// When the leader of each group was reaped, in ticks since the boot; none: it was not.
using Groups = std::map<pid_t, std::optional<std::uint64_t>>;

std::uint64_t ticks_since_boot() {
  return static_cast<std::uint64_t>(seconds_since_boot() * static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

class Doomed {
 public:
  Doomed(const GuardDuty& duty, const Groups& groups) : groups_(groups), session_(duty.session), mark_(duty.mark) {}

  // False: none was left. Stops all of them first, so that none goes on because another has ended: otherwise a task
  // might start when a handler returns because its child was killed.
  [[nodiscard]] bool kill_all() const {
    std::vector<pid_t> pids = left();
    for (int signum : {SIGSTOP, SIGKILL}) {
      for (pid_t pid : pids) ::kill(pid, signum);
    }
    return !pids.empty();
  }

 private:
  [[nodiscard]] std::vector<pid_t> left() const {
    std::vector<pid_t> out;
    DIR* processes = ::opendir("/proc");
    if (processes == nullptr) return out;
    while (const dirent* each = ::readdir(processes)) {
      if (each->d_name[0] < '1' || each->d_name[0] > '9') continue;
      auto pid = static_cast<pid_t>(std::strtol(each->d_name, nullptr, 10));
      if (of_groups(pid) || has_mark(std::string("/proc/") + each->d_name)) out.push_back(pid);
    }
    ::closedir(processes);
    return out;
  }

  // A group of another session is not ours: its number was only used again. The same may be true of a group whose
  // leader was reaped, unless the process is older than that. What ours has started since has the mark.
  [[nodiscard]] bool of_groups(pid_t pid) const {
    if (groups_.empty()) return false;
    auto stat = ProcessStat::of(pid);
    auto group = stat && stat->state != 'Z' ? groups_.find(stat->group) : groups_.end();
    if (group == groups_.end() || (stat->session != session_ && stat->session != stat->group)) return false;
    return !group->second || stat->start <= *group->second;
  }

  // For a process that has left its group and its session. A process that has ended has no environment any more.
  [[nodiscard]] bool has_mark(const std::string& folder) const {
    struct stat info {};
    if (mark_.empty() || ::stat(folder.c_str(), &info) < 0 || info.st_uid != ::geteuid()) return false;
    Result<std::string> environment = read_file(folder + "/environ");
    if (!environment) return false;
    const std::string wanted = '\0' + mark_ + '\0';
    return ('\0' + *environment + '\0').find(wanted) != std::string::npos;
  }

  const Groups& groups_;
  pid_t session_;
  const std::string& mark_;
};

// ---- the process -------------------------------------------------------------------

class GuardProcess {
 public:
  explicit GuardProcess(const GuardDuty& duty) : duty_(duty), starter_(duty.starter) {}

  [[noreturn]] void run() {
    while (wait_for_records()) {
    }
    if (duty_.calls->place().within_call() && !duty_.calls->reported() && !killed_) report_end();
    // A program that reads standard error to its end must not wait for the guard.
    ::close(STDERR_FILENO);
    start_command();
    start_to_end_entry();
    wait_for_end_of_shell();
    Doomed doomed(duty_, groups_);
    for (int round = 0; round < kRounds && doomed.kill_all(); ++round) ::usleep(kBetween);
    for (const std::string& each : directories_) {
      for (int round = 0; round < kRemovals && !remove_tree(each) && ::access(each.c_str(), F_OK) == 0; ++round)
        ::usleep(kBetween);
    }
    if (!duty_.socket.empty()) ::unlink(duty_.socket.c_str());
    if (!duty_.socket_folder.empty()) ::rmdir(duty_.socket_folder.c_str());
    ::_exit(0);
  }

 private:
  // False: the shell has gone.
  bool wait_for_records() {
    std::array<pollfd, 2> wanted{{{duty_.records, POLLIN, 0}, {orphaned_ ? -1 : starter_, POLLRDHUP, 0}}};
    int ready = ::poll(wanted.data(), wanted.size(), orphaned_ ? kLook : duty_.watched.empty() ? -1 : kWatch);
    if (ready < 0) return errno == EINTR;
    if (ready == 0 && orphaned_) look_at_shell();
    if (ready == 0 && !duty_.watched.empty()) report_standstill();
    if ((wanted[1].revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0) orphaned_ = true;
    return wanted[0].revents == 0 || read_records();
  }

  // A child that is about to become a task is killed as the shell ends, a moment after the pipe has closed. If a
  // process that the child's handler waits for were killed before that, the task would start. A shell that has
  // closed the pipe by itself ends soon.
  void wait_for_end_of_shell() const {
    for (int look = 0; look < kEndLooks && ::getppid() == duty_.shell; ++look) ::usleep(kBetweenEndLooks);
  }

  bool read_records() {
    std::array<char, PIPE_BUF> buffer;
    ssize_t got = ::read(duty_.records, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    unread_.append(buffer.data(), static_cast<std::size_t>(got));
    for (;;) {
      std::uint16_t size = 0;
      if (unread_.size() < kHead) return true;
      std::memcpy(&size, unread_.data() + 1, sizeof size);
      if (unread_.size() < kHead + size) return true;
      take(static_cast<GuardKind>(unread_.front()), std::string_view(unread_).substr(kHead, size));
      unread_.erase(0, kHead + size);
    }
  }

  void take(GuardKind kind, std::string_view body) {
    switch (kind) {
      case GuardKind::group:
      case GuardKind::left_group:
      case GuardKind::no_group: return take_group(kind, body);
      case GuardKind::directory: directories_.emplace(body); return;
      case GuardKind::no_directory: directories_.erase(std::string(body)); return;
      case GuardKind::entry: entry_ = body; return;
      case GuardKind::command: command_ = body; return;
      case GuardKind::detached: return detach(std::string(body));
      case GuardKind::pruning: prune(std::string(body));
    }
  }

  // The shell has left nothing else to do, and nobody waits for what this process holds.
  [[noreturn]] static void prune(const std::string& path) {
    close_from(0);
    if (auto directory = record::EntryDirectory::open(path)) record::prune(*directory, event::wall_clock());
    ::_exit(0);
  }

  void take_group(GuardKind kind, std::string_view body) {
    pid_t group = 0;
    if (body.size() != sizeof group) return;
    std::memcpy(&group, body.data(), sizeof group);
    if (group <= 0) return;
    groups_.erase(group);
    if (kind == GuardKind::group) groups_.emplace(group, std::nullopt);
    if (kind == GuardKind::left_group) groups_.emplace(group, ticks_since_boot());
  }

  // What it holds would keep the agent that has started the shell.
  void detach(const std::string& file) {
    UniqueFd to(::open(file.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
    if (!to) to = UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (to) ::dup2(to.get(), STDERR_FILENO);
    if (starter_ >= 0) ::close(starter_);
    starter_ = -1;
    orphaned_ = false;
  }

  // A shell may outlive the process that started it, so it is killed only if it is stuck or stopped.
  void look_at_shell() {
    look_at_call();
    look_at_state();
  }

  // Counts looks, not time, as the guard may have been stopped with the shell.
  void look_at_state() {
    stopped_looks_ = process_state(duty_.shell) == 'T' ? stopped_looks_ + 1 : 0;
    if (stopped_looks_ < kStoppedLooks || killed_ || ::getppid() != duty_.shell) return;
    LastLine line;
    line << "this shell has been stopped by a signal, and the process that started it has gone: it is killed";
    line.write();
    kill_shell();
  }

  void kill_shell() {
    killed_ = true;
    ::kill(duty_.shell, SIGKILL);
  }

  void look_at_call() {
    CallPage::Place now = duty_.calls->place();
    looks_ = now.within_call() && now == seen_ ? looks_ + 1 : 0;
    seen_ = now;
    if (looks_ < kLooks || CallPage::clock() - duty_.calls->moved_at() < kStuck || killed_ ||
        ::getppid() != duty_.shell)
      return;
    LastLine line;
    line << "plugin '" << duty_.calls->plugin() << "' does not return from " << duty_.calls->topic()
         << ", and the process that started this shell has gone: it is killed";
    line.write();
    kill_shell();
  }

  void report_standstill() {
    auto report = standstill_.update(process_state(duty_.shell), event::clock_now().count());
    if (!report) return;
    print_err("{} {}\n", duty_.watched, *report);
  }

  // In a process of its own: a file system that does not answer must not keep processes of the job running.
  void start_to_end_entry() const {
    if (entry_.empty()) return;
    pid_t pid = ::fork();
    if (pid > 0) return;
    if (pid == 0) close_from(0);  // nor a process that waits for the end of a stream
    end_entry();
    if (pid == 0) ::_exit(0);
  }

  // It is not waited for. What it writes has no place to go.
  void start_command() const {
    if (command_.empty() || ::fork() != 0) return;
    std::vector<char*> words;
    std::string text = command_;
    for (std::size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) words.push_back(text.data() + at);
    words.push_back(nullptr);
    close_from(0);
    for (int each = 0; each <= STDERR_FILENO; ++each) static_cast<void>(::open("/dev/null", O_RDWR));
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }

  // The shell would have written how the job has ended, had it not been killed.
  void end_entry() const {
    std::size_t slash = entry_.rfind('/');
    if (slash == std::string::npos) return;
    auto directory = record::EntryDirectory::open(entry_.substr(0, slash));
    if (!directory) return;
    directory->remove_temporary(entry_.substr(slash + 1), duty_.shell);
    auto entry = directory->read_named(entry_.substr(slash + 1));
    if (!entry || entry->ended() || entry->pid != duty_.shell) return;
    if (entry->takes_over) return directory->note_lost(entry->id);
    static_cast<void>(directory->write(record::vanished(*std::move(entry), event::wall_clock())));
  }

  void report_end() const {
    LastLine line;
    line << "this shell has ended while plugin '" << duty_.calls->plugin() << "' ran " << duty_.calls->topic()
         << ": it called _exit(2), or was killed";
    line.write();
  }

  const GuardDuty& duty_;
  int starter_;
  std::string unread_;
  Groups groups_;
  std::set<std::string> directories_;
  std::string entry_;      // of the list of jobs; "": none
  std::string command_;    // its words, each with a NUL behind it; "": none
  bool orphaned_ = false;  // the process that started the shell has gone
  CallPage::Place seen_;
  int looks_ = 0;          // how many looks have found it there
  int stopped_looks_ = 0;  // how many looks have found it stopped
  bool killed_ = false;
  Standstill standstill_;
};

}  // namespace

std::string guard_record(GuardKind kind, std::string_view body) {
  auto size = static_cast<std::uint16_t>(body.size());
  if (kHead + body.size() > PIPE_BUF) return "";
  std::string out(1, static_cast<char>(kind));
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  return out.append(body);
}

// Leaves the session, so that what ends the shell's group does not end the guard.
void run_guard(const GuardDuty& duty) {
  ::setsid();
  ::prctl(PR_SET_NAME, kGuardProcess, 0, 0, 0);
  [[maybe_unused]] int moved = ::chdir("/");
  // Keeps nothing else of the shell open, such as sockets, or a pipe whose end the shell's owner waits for. No
  // descriptor may be free, and the starter's stream may be standard input.
  GuardDuty own = duty;
  ::close(STDOUT_FILENO);
  if (duty.starter >= 0) own.starter = ::dup2(duty.starter, STDOUT_FILENO);
  own.records = ::dup2(duty.records, STDIN_FILENO);
  close_from(3);
  GuardProcess(own).run();
}

}  // namespace nacre::join
