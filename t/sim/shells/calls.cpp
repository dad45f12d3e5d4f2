// SPDX-License-Identifier: Apache-2.0
//
// What the shells of the simulator call in place of libc's functions of these names: the linker gives nacre-shell's
// library `__wrap_kill` for `kill` and so on (CMakeLists.txt has the list). All others are libc's own. While the
// library is loaded, before there is a kernel, these also are libc's.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>

#include "shells/kernel.hpp"

using namespace nacre::shells;  // NOLINT

#define NACRE_CALL extern "C" __attribute__((visibility("default")))  // NOLINT

namespace {

constexpr Nanoseconds kOneSecond = 1'000'000'000;
constexpr Nanoseconds kBoot = 100'000 * kOneSecond;           // of the clocks that begin with the host
constexpr Nanoseconds kEpoch = 1'790'000'000LL * kOneSecond;  // of the wall clock
constexpr const char* kHost = "host";
constexpr int kCpus = 4;

jmp_buf vfork_point;

Kernel& kernel() { return Kernel::get(); }
bool is_running() { return Kernel::is_running(); }
bool is_newborn() { return is_running() && kernel().newborn().has_value(); }

int failed(int code) {
  errno = code;
  return -1;
}

[[noreturn]] void leave_newborn() {
  ::longjmp(vfork_point, kernel().newborn_over());  // NOLINT
}

// Waits like a call on a descriptor without O_NONBLOCK.
void wait_ready(int fd, short events) {
  if (!is_running() || is_newborn()) return;
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) != 0) return;
  pollfd state{fd, events, 0};
  while (::poll(&state, 1, 0) == 0) kernel().wait({kNever, -1, {state}, false});
}

void note_bytes(int fd, std::string_view bytes) {
  if (fd != STDERR_FILENO) return;
  while (!bytes.empty()) {
    std::size_t end = bytes.find('\n');
    kernel().note(kernel().current(), "writes: " + std::string(bytes.substr(0, end)));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
  }
}

// What a shell is called in the trace: by its rank, once it has read its launch record.
void name_by_record(std::string_view bytes) {
  constexpr std::string_view kRank = "\"rank\":";
  std::size_t at = bytes.find(kRank);
  Process& self = kernel().current();
  if (at == std::string_view::npos || self.is_named) return;
  self.is_named = true;
  kernel().named(self,
                 static_cast<std::uint32_t>(std::atoi(std::string(bytes.substr(at + kRank.size(), 9)).c_str())));
}

// EPIPE without a flag against it also sends the signal.
ssize_t after_write(ssize_t written) {
  int code = errno;
  if (written < 0 && code == EPIPE && is_running() && !is_newborn())
    kernel().send_signal(kernel().current().pid, SIGPIPE);
  errno = code;
  return written;
}

int adopted(int fd, const char* call) {
  if (is_newborn() && fd >= 0) kernel().newborn()->fds[fd] = fd;
  if (is_running()) kernel().adopt(fd, call);
  return fd;
}

int open_one(int directory, const char* path, int flags, mode_t mode) {
  std::string_view name = path;
  if (is_running() && name.starts_with("/proc/")) {
    if (name.ends_with("/io")) return failed(EACCES);  // this is about this process, and differs each time
    if (name.ends_with("/oom_score_adj")) path = "/dev/null";
  }
  return adopted(::openat(directory, path, flags, mode), "open");
}

int own_umask(mode_t mask) {
  auto before = static_cast<int>(::umask(mask));
  if (is_running()) kernel().fiber().umask = mask;
  return before;
}

int newborn_dup(int from, int to) {
  Newborn& born = *kernel().newborn();
  int real = kernel().real_fd(from);
  if (real < 0) return failed(EBADF);
  int fd = ::fcntl(real, F_DUPFD, kNewbornDescriptors);
  if (fd < 0) return -1;
  auto found = born.fds.find(to);
  if (found != born.fds.end()) ::close(found->second);
  born.fds[to] = fd;
  return to;
}

int newborn_close(unsigned first, unsigned last) {
  Newborn& born = *kernel().newborn();
  for (auto each = born.fds.lower_bound(static_cast<int>(std::min<unsigned>(first, INT_MAX)));
       each != born.fds.end() && static_cast<unsigned>(each->first) <= last;) {
    ::close(each->second);
    each = born.fds.erase(each);
  }
  born.closed.emplace(first, last);
  return 0;
}

int newborn_fcntl(int fd, int command, long argument) {
  int real = kernel().real_fd(fd);
  if (real < 0) return failed(EBADF);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
    int made = ::fcntl(real, command, argument);
    if (made >= 0) kernel().newborn()->fds[made] = made;
    return made;
  }
  if (command == F_SETFD && argument == 0) return newborn_dup(fd, fd) < 0 ? -1 : 0;
  return ::fcntl(real, command, argument);
}

int control_fd(int fd, int command, long argument) {
  if (is_newborn()) return newborn_fcntl(fd, command, argument);
  int out = ::fcntl(fd, command, argument);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) adopted(out, "fcntl");
  return out;
}

// ---- children --------------------------------------------------------------------

bool is_meant(const Process& each, pid_t which) {
  if (each.parent != kernel().current().pid || each.is_reaped) return false;
  if (which > 0) return each.pid == which;
  return which == -1 || each.group == (which == 0 ? kernel().current().group : -which);
}

// The first child that has ended; null: none has. `has_any`: there are such children at all.
Process* ended_child(pid_t which, bool& has_any) {
  has_any = false;
  for (const auto& [pid, each] : kernel().processes()) {
    if (!is_meant(*each, which)) continue;
    has_any = true;
    if (each->is_over) return each.get();
  }
  return nullptr;
}

pid_t wait_child(pid_t which, int* status, int options, rusage* usage) {
  kernel().let_tasks_go_on();
  for (;;) {
    bool has_any = false;
    Process* child = ended_child(which, has_any);
    if (!has_any) return failed(ECHILD);
    if (child != nullptr) {
      child->is_reaped = true;
      if (status != nullptr) *status = child->status;
      if (usage != nullptr) *usage = {};
      return child->pid;
    }
    if ((options & WNOHANG) != 0) return 0;
    kernel().end_aide(which);
    if (kernel().wait({kNever, -1, {}, true})) return failed(EINTR);
  }
}

int wait_epoll(int epoll, epoll_event* events, int most, int timeout) {
  if (timeout == 0 || !is_running()) {
    if (is_running()) kernel().tick();
    return ::epoll_wait(epoll, events, most, timeout);
  }
  Nanoseconds until = timeout < 0 ? kNever : kernel().now() + timeout * (kOneSecond / 1000);
  bool interrupted = kernel().wait({until, epoll, {}, false});
  const auto& ready = kernel().fiber().ready;
  std::size_t count = std::min(ready.size(), static_cast<std::size_t>(most));
  std::copy_n(ready.begin(), count, events);
  for (std::size_t i = 0; i < count; ++i) kernel().fiber().held_until.erase(events[i].data.fd);
  if (count == 0 && interrupted) return failed(EINTR);
  return static_cast<int>(count);
}

void sleep_for(Nanoseconds time) {
  Nanoseconds until = kernel().now() + std::max<Nanoseconds>(time, 1);
  while (kernel().now() < until) kernel().wait({until, -1, {}, false});
}

void fill_random(void* to, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(kernel().random().next());
}

int change_mask(int how, const sigset_t* set, sigset_t* old) {
  if (!is_running()) return 0;
  std::uint64_t& blocked = kernel().fiber().blocked;
  const std::uint64_t before = blocked;
  if (set != nullptr && !is_newborn()) {
    const std::uint64_t in = bits_of(*set);
    blocked = how == SIG_SETMASK ? in : how == SIG_BLOCK ? before | in : before & ~in;
    blocked &= ~(bit_of(SIGKILL) | bit_of(SIGSTOP));
  }
  if (old != nullptr) {
    ::sigemptyset(old);
    std::memcpy(old, &before, sizeof before);
  }
  if (set != nullptr && !is_newborn()) kernel().handle_signals();
  return 0;
}

// The path of a Unix socket; "": it has none.
std::string path_of(const sockaddr* address, socklen_t size) {
  if (address->sa_family != AF_UNIX || size <= sizeof(sa_family_t)) return "";
  const std::string_view bytes(reinterpret_cast<const char*>(address), size);
  const std::string path(bytes.substr(offsetof(sockaddr_un, sun_path)));
  return path.substr(0, path.find('\0', 1));  // an abstract one begins with a NUL
}

int taken(int listener, int fd, const char* call) {
  adopted(fd, call);
  sockaddr_un own{};
  socklen_t size = sizeof own;
  if (fd >= 0 && is_running() && ::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) == 0)
    kernel().accepted(fd, path_of(reinterpret_cast<sockaddr*>(&own), size));
  return fd;
}

bool is_held_back(int fd) { return is_running() && !is_newborn() && kernel().is_apart(kernel().current(), fd); }

}  // namespace

// ---- time, random numbers ----------------------------------------------------------

NACRE_CALL int __wrap_clock_gettime(clockid_t clock, timespec* out) {
  if (!is_running()) return ::clock_gettime(clock, out);
  bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
  Nanoseconds now = kernel().tick() + (is_wall ? kEpoch : kBoot);
  *out = {now / kOneSecond, now % kOneSecond};
  return 0;
}

NACRE_CALL int __wrap_gettimeofday(timeval* out, void*) {
  timespec now{};
  __wrap_clock_gettime(CLOCK_REALTIME, &now);
  *out = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

NACRE_CALL time_t __wrap_time(time_t* out) {
  timespec now{};
  __wrap_clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

NACRE_CALL std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  timespec now{};
  __wrap_clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kOneSecond + now.tv_nsec;
}

NACRE_CALL std::int64_t __wrap__ZNSt6chrono3_V212system_clock3nowEv() {
  timespec now{};
  __wrap_clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kOneSecond + now.tv_nsec;
}

NACRE_CALL int __wrap_nanosleep(const timespec* time, timespec*) {
  sleep_for(time->tv_sec * kOneSecond + time->tv_nsec);
  return 0;
}

NACRE_CALL int __wrap_usleep(useconds_t time) {
  sleep_for(Nanoseconds{time} * 1000);
  return 0;
}

NACRE_CALL ssize_t __wrap_getrandom(void* to, std::size_t size, unsigned flags) {
  if (!is_running()) return ::getrandom(to, size, flags);
  fill_random(to, size);
  return static_cast<ssize_t>(size);
}

NACRE_CALL int __wrap_getentropy(void* to, std::size_t size) {
  if (!is_running()) return ::getentropy(to, size);
  fill_random(to, size);
  return 0;
}

NACRE_CALL std::uint32_t __wrap_arc4random() {
  return is_running() ? static_cast<std::uint32_t>(kernel().random().next()) : 4;
}

// ---- processes ---------------------------------------------------------------------

NACRE_CALL pid_t __wrap_getpid() {
  if (!is_running()) return ::getpid();
  return is_newborn() ? kernel().newborn()->pid : kernel().current().pid;
}

NACRE_CALL pid_t __wrap_getppid() {
  return is_newborn() ? kernel().current().pid : is_running() ? kernel().current().parent : ::getppid();
}

NACRE_CALL pid_t __wrap_getpgid(pid_t pid) {
  Process* process = pid == 0 ? &kernel().current() : kernel().find(pid);
  return process != nullptr ? process->group : failed(ESRCH);
}

NACRE_CALL pid_t __wrap_getpgrp() { return kernel().current().group; }

NACRE_CALL pid_t __wrap_getsid(pid_t pid) {
  Process* process = pid == 0 ? &kernel().current() : kernel().find(pid);
  return process != nullptr ? process->session : failed(ESRCH);
}

NACRE_CALL pid_t __wrap_setsid() {
  if (is_newborn()) {
    Newborn& born = *kernel().newborn();
    return born.session = born.group = born.pid;
  }
  Process& self = kernel().current();
  return self.session = self.group = self.pid;
}

NACRE_CALL int __wrap_setpgid(pid_t pid, pid_t group) {
  if (is_newborn() && (pid == 0 || pid == kernel().newborn()->pid)) {
    kernel().newborn()->group = group == 0 ? kernel().newborn()->pid : group;
    return 0;
  }
  Process* process = pid == 0 ? &kernel().current() : kernel().find(pid);
  if (process == nullptr) return failed(ESRCH);
  process->group = group == 0 ? process->pid : group;
  return 0;
}

extern "C" void nacre_vfork_begins() {
  const Process& self = kernel().current();
  kernel().newborn() = Newborn{{}, {}, kernel().new_pid(), self.group, self.session, 0};
}
extern "C" jmp_buf* nacre_vfork_point() { return &vfork_point; }

// As vfork(2) it returns twice to its caller: at once, with 0, and by longjmp() once the new process has executed a
// program or ended. So it has no frame of its own at that time.
#if defined(__x86_64__)
asm(R"(
  .text
  .globl __wrap_vfork
  .type __wrap_vfork, @function
__wrap_vfork:
  subq $8, %rsp
  call nacre_vfork_begins
  call nacre_vfork_point
  addq $8, %rsp
  movq %rax, %rdi
  jmp _setjmp@PLT
  .size __wrap_vfork, . - __wrap_vfork
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl __wrap_vfork
  .type __wrap_vfork, @function
__wrap_vfork:
  stp x29, x30, [sp, #-16]!
  bl nacre_vfork_begins
  bl nacre_vfork_point
  ldp x29, x30, [sp], #16
  b _setjmp
  .size __wrap_vfork, . - __wrap_vfork
)");
#else
#error "vfork of the simulator is not known for this processor"
#endif

// The new process is an aide: its actions are not simulated.
NACRE_CALL pid_t __wrap_fork() { return kernel().fork_aide(); }

NACRE_CALL int __wrap_execve(const char* path, char* const* argv, char* const* environment) {
  if (!is_newborn()) return failed(ENOSYS);
  if (int code = kernel().execute(path, argv, environment); code != 0) return failed(code);
  leave_newborn();
}

NACRE_CALL int __wrap_execvp(const char*, char* const*) { return failed(ENOSYS); }

NACRE_CALL void __wrap__exit(int code) {
  if (is_newborn()) {
    kernel().end_newborn((code & 0xff) << 8);
    leave_newborn();
  }
  kernel().end_current((code & 0xff) << 8);
}

NACRE_CALL void __wrap_exit(int code) { nacre::shells::exit_current(code); }

NACRE_CALL void __wrap_abort() {
  if (!is_running()) ::abort();
  kernel().current().error = "abort()";
  kernel().end_current(SIGABRT);
}

NACRE_CALL void __wrap___assert_fail(const char* what, const char* file, unsigned line, const char* function) {
  std::string text = std::string(file) + ":" + std::to_string(line) + ": " + function + ": " + what;
  kernel().note(kernel().current(), "asserts: " + text);
  kernel().current().error = std::move(text);
  kernel().end_current(SIGABRT);
}

NACRE_CALL int __wrap___cxa_atexit(void (*function)(void*), void* argument, void*) {
  if (is_running()) kernel().fiber().at_exit.emplace_back([=](int) { function(argument); });
  return 0;
}

NACRE_CALL int __wrap_on_exit(void (*function)(int, void*), void* argument) {
  kernel().fiber().at_exit.emplace_back([=](int code) { function(code, argument); });
  return 0;
}

NACRE_CALL int __wrap___register_atfork(void (*)(), void (*)(), void (*)(), void*) { return 0; }

NACRE_CALL pid_t __wrap_wait4(pid_t which, int* status, int options, rusage* usage) {
  return wait_child(which, status, options, usage);
}

NACRE_CALL pid_t __wrap_waitpid(pid_t which, int* status, int options) {
  return wait_child(which, status, options, nullptr);
}

NACRE_CALL int __wrap_waitid(idtype_t type, id_t id, siginfo_t* info, int options) {
  kernel().let_tasks_go_on();
  pid_t which = type == P_ALL ? -1 : type == P_PID ? static_cast<pid_t>(id) : -static_cast<pid_t>(id);
  for (;;) {
    bool has_any = false;
    Process* child = ended_child(which, has_any);
    if (!has_any) return failed(ECHILD);
    if (child != nullptr) {
      bool exited = WIFEXITED(child->status);
      *info = {};
      info->si_signo = SIGCHLD;
      info->si_pid = child->pid;
      info->si_code = exited ? CLD_EXITED : CLD_KILLED;
      info->si_status = exited ? WEXITSTATUS(child->status) : WTERMSIG(child->status);
      if ((options & WNOWAIT) == 0) child->is_reaped = true;
      return 0;
    }
    if ((options & WNOHANG) != 0) {
      *info = {};
      return 0;
    }
    if (kernel().wait({kNever, -1, {}, true})) return failed(EINTR);
  }
}

NACRE_CALL int __wrap_prctl(int option, unsigned long argument, ...) {
  if (option == PR_SET_PDEATHSIG && is_newborn()) kernel().newborn()->death_signal = static_cast<int>(argument);
  return 0;
}

NACRE_CALL long __wrap_ptrace(int, ...) { return failed(EPERM); }

NACRE_CALL int __wrap_pthread_key_create(pthread_key_t* out, void (*destroy)(void*)) {
  int code = ::pthread_key_create(out, destroy);
  if (code == 0 && is_running()) kernel().fiber().keys.push_back(*out);
  return code;
}

NACRE_CALL unsigned __wrap__ZNSt6thread20hardware_concurrencyEv() { return 1; }

// ---- signals -----------------------------------------------------------------------

NACRE_CALL int __wrap_kill(pid_t pid, int signum) {
  int code = kernel().send_signal(pid, signum);
  return code == 0 ? 0 : failed(code);
}

NACRE_CALL int __wrap_raise(int signum) { return __wrap_kill(kernel().current().pid, signum); }

NACRE_CALL int __wrap_sigaction(int signum, const struct sigaction* action, struct sigaction* old) {
  if (!is_running()) return 0;
  if (signum < 1 || signum >= NSIG) return failed(EINVAL);
  struct sigaction& own = kernel().fiber().actions[static_cast<std::size_t>(signum)];
  if (old != nullptr) *old = own;
  if (action == nullptr || is_newborn()) return 0;
  if (signum == SIGKILL || signum == SIGSTOP) return failed(EINVAL);
  own = *action;
  return 0;
}

NACRE_CALL sighandler_t __wrap_signal(int signum, sighandler_t handler) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = handler;
  return __wrap_sigaction(signum, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

NACRE_CALL int __wrap_sigprocmask(int how, const sigset_t* set, sigset_t* old) {
  return change_mask(how, set, old);
}
NACRE_CALL int __wrap_pthread_sigmask(int how, const sigset_t* set, sigset_t* old) {
  return change_mask(how, set, old);
}

NACRE_CALL int __wrap_sigpending(sigset_t* out) {
  ::sigemptyset(out);
  const std::uint64_t waiting = kernel().fiber().pending & kernel().fiber().blocked;
  std::memcpy(out, &waiting, sizeof waiting);
  return 0;
}

NACRE_CALL int __wrap_sigaltstack(const stack_t*, stack_t* old) {
  if (old != nullptr) *old = {nullptr, SS_DISABLE, 0};
  return 0;
}

// ---- what belongs to a process --------------------------------------------------------

NACRE_CALL char* __wrap_getenv(const char* name) {
  if (!is_running()) return ::getenv(name);
  auto& own = kernel().fiber().environment;
  auto found = own.find(name);
  return found == own.end() ? nullptr : found->second.data();
}

NACRE_CALL char* __wrap_secure_getenv(const char* name) { return __wrap_getenv(name); }

NACRE_CALL int __wrap_setenv(const char* name, const char* value, int replaces) {
  auto& own = kernel().fiber().environment;
  if (replaces == 0 && own.contains(name)) return 0;
  own[name] = value;
  nacre::shells::publish_environment(kernel().fiber());
  return 0;
}

NACRE_CALL int __wrap_unsetenv(const char* name) {
  kernel().fiber().environment.erase(name);
  nacre::shells::publish_environment(kernel().fiber());
  return 0;
}

NACRE_CALL int __wrap_chdir(const char* path) {
  if (is_newborn()) {
    struct stat status {};
    if (::stat(path, &status) < 0) return -1;
    return S_ISDIR(status.st_mode) ? 0 : failed(ENOTDIR);
  }
  if (::chdir(path) < 0) return -1;
  int here = ::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int& own = kernel().fiber().directory;
  ::close(own);
  own = ::fcntl(here, F_DUPFD_CLOEXEC, kOwnDescriptors);
  ::close(here);
  return 0;
}

NACRE_CALL mode_t __wrap_umask(mode_t mask) { return static_cast<mode_t>(own_umask(mask)); }

NACRE_CALL int __wrap_gethostname(char* to, std::size_t size) {
  std::snprintf(to, size, "%s", kHost);
  return 0;
}

NACRE_CALL int __wrap_uname(utsname* out) {
  int code = ::uname(out);
  std::snprintf(out->nodename, sizeof out->nodename, "%s", kHost);
  return code;
}

NACRE_CALL int __wrap_sched_getaffinity(pid_t, std::size_t size, cpu_set_t* out) {
  std::memset(out, 0, size);
  for (int i = 0; i < kCpus; ++i) CPU_SET_S(i, size, out);
  return 0;
}

NACRE_CALL int __wrap_sched_setaffinity(pid_t, std::size_t, const cpu_set_t*) { return 0; }
NACRE_CALL int __wrap_sched_setscheduler(pid_t, int, const sched_param*) { return 0; }
NACRE_CALL int __wrap_setpriority(int, id_t, int) { return 0; }

NACRE_CALL int __wrap_getrlimit(int which, rlimit* out) {
  *out = {RLIM_INFINITY, RLIM_INFINITY};
  if (which == RLIMIT_NOFILE) *out = {1024, 1048576};
  if (which == RLIMIT_STACK) out->rlim_cur = rlim_t{8} << 20;
  return 0;
}
NACRE_CALL int __wrap_getrlimit64(int which, rlimit* out) { return __wrap_getrlimit(which, out); }
NACRE_CALL int __wrap_setrlimit(int, const rlimit*) { return 0; }

NACRE_CALL int __wrap_getrusage(int, rusage* out) {
  *out = {};
  return 0;
}

NACRE_CALL ssize_t __wrap_readlink(const char* path, char* to, std::size_t size) {
  if (is_running() && std::string_view(path) == "/proc/self/exe") {
    const std::string& program = kernel().program();
    std::size_t length = std::min(size, program.size());
    std::memcpy(to, program.data(), length);
    return static_cast<ssize_t>(length);
  }
  return ::readlink(path, to, size);
}

// ---- descriptors ---------------------------------------------------------------------

NACRE_CALL int __wrap_open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_one(AT_FDCWD, path, flags, mode);
}

NACRE_CALL int __wrap_open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_one(AT_FDCWD, path, flags, mode);
}

NACRE_CALL int __wrap_openat(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_one(directory, path, flags, mode);
}

NACRE_CALL int __wrap_close(int fd) {
  if (is_newborn()) return newborn_close(static_cast<unsigned>(fd), static_cast<unsigned>(fd));
  if (is_running()) kernel().release(fd);
  return ::close(fd);
}

NACRE_CALL int __wrap_closedir(DIR* directory) {
  if (is_running()) kernel().release(::dirfd(directory));
  return ::closedir(directory);
}

NACRE_CALL int __wrap_fclose(std::FILE* file) {
  if (is_running()) kernel().release(::fileno(file));
  return ::fclose(file);
}

NACRE_CALL int __wrap_dup(int fd) { return adopted(::dup(fd), "dup"); }

NACRE_CALL int __wrap_dup2(int from, int to) {
  if (is_newborn()) return newborn_dup(from, to);
  return adopted(::dup2(from, to), "dup2");
}

NACRE_CALL int __wrap_dup3(int from, int to, int flags) {
  if (is_newborn()) return newborn_dup(from, to);
  return adopted(::dup3(from, to, flags), "dup3");
}

NACRE_CALL int __wrap_fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  long argument = va_arg(rest, long);
  va_end(rest);
  return control_fd(fd, command, argument);
}

NACRE_CALL int __wrap_fcntl64(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  long argument = va_arg(rest, long);
  va_end(rest);
  return control_fd(fd, command, argument);
}

NACRE_CALL int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return is_newborn() ? 0 : ::ioctl(fd, request, argument);
}

NACRE_CALL int __wrap_pipe2(int* out, int flags) {
  if (::pipe2(out, flags) < 0) return -1;
  if (is_running()) kernel().fiber().last_pipe = out[0];
  adopted(out[0], "pipe2");
  adopted(out[1], "pipe2");
  return 0;
}

NACRE_CALL int __wrap_socketpair(int domain, int type, int protocol, int* out) {
  if (::socketpair(domain, type, protocol, out) < 0) return -1;
  adopted(out[0], "socketpair");
  adopted(out[1], "socketpair");
  return 0;
}

NACRE_CALL int __wrap_socket(int domain, int type, int protocol) {
  return adopted(::socket(domain, type, protocol), "socket");
}

NACRE_CALL int __wrap_accept(int fd, sockaddr* to, socklen_t* size) {
  return taken(fd, ::accept(fd, to, size), "accept");
}
NACRE_CALL int __wrap_accept4(int fd, sockaddr* to, socklen_t* size, int flags) {
  return taken(fd, ::accept4(fd, to, size, flags), "accept4");
}
NACRE_CALL int __wrap_bind(int fd, const sockaddr* at, socklen_t size) {
  int done = ::bind(fd, at, size);
  if (done == 0 && is_running()) kernel().listens(path_of(at, size));
  return done;
}
NACRE_CALL int __wrap_connect(int fd, const sockaddr* to, socklen_t size) {
  const std::string path = path_of(to, size);
  if (is_running() && kernel().is_apart(path)) return failed(EHOSTUNREACH);
  int done = ::connect(fd, to, size);
  if (done == 0 && is_running() && !path.empty()) kernel().connected(fd, path);
  return done;
}
NACRE_CALL int __wrap_epoll_create(int size) { return adopted(::epoll_create(size), "epoll_create"); }
NACRE_CALL int __wrap_epoll_create1(int flags) { return adopted(::epoll_create1(flags), "epoll_create1"); }
NACRE_CALL int __wrap_eventfd(unsigned count, int flags) { return adopted(::eventfd(count, flags), "eventfd"); }
// A timer that has been set is ready, but that is not known before.
NACRE_CALL int __wrap_timerfd_create(int, int) {
  return adopted(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "timerfd_create");
}
NACRE_CALL int __wrap_timerfd_settime(int fd, int, const itimerspec* when, itimerspec*) {
  const Nanoseconds delay = when->it_value.tv_sec * kOneSecond + when->it_value.tv_nsec;
  kernel().fiber().held_until[fd] = kernel().now() + delay;
  const std::uint64_t once = 1;
  return ::write(fd, &once, sizeof once) == sizeof once ? 0 : -1;
}
NACRE_CALL int __wrap_inotify_init1(int flags) { return adopted(::inotify_init1(flags), "inotify_init1"); }
NACRE_CALL int __wrap_posix_openpt(int flags) { return adopted(::posix_openpt(flags), "posix_openpt"); }
NACRE_CALL int __wrap_mkostemp(char* name, int flags) { return adopted(::mkostemp(name, flags), "mkostemp"); }
NACRE_CALL int __wrap_mkstemp64(char* name) { return adopted(::mkstemp(name), "mkstemp64"); }

NACRE_CALL ssize_t __wrap_read(int fd, void* to, std::size_t size) {
  wait_ready(fd, POLLIN);
  if (is_held_back(fd)) return failed(EAGAIN);
  ssize_t got = ::read(fd, to, size);
  if (fd == STDIN_FILENO && got > 0 && is_running())
    name_by_record({static_cast<char*>(to), static_cast<std::size_t>(got)});
  return got;
}

NACRE_CALL ssize_t __wrap_readv(int fd, const iovec* to, int count) {
  wait_ready(fd, POLLIN);
  if (is_held_back(fd)) return failed(EAGAIN);
  return ::readv(fd, to, count);
}

NACRE_CALL ssize_t __wrap_write(int fd, const void* from, std::size_t size) {
  if (is_newborn()) return ::write(kernel().real_fd(fd), from, size);
  wait_ready(fd, POLLOUT);
  if (is_running()) note_bytes(fd, {static_cast<const char*>(from), size});
  return after_write(::write(fd, from, size));
}

NACRE_CALL ssize_t __wrap_writev(int fd, const iovec* from, int count) {
  wait_ready(fd, POLLOUT);
  return after_write(::writev(fd, from, count));
}

NACRE_CALL ssize_t __wrap_recv(int fd, void* to, std::size_t size, int flags) {
  if ((flags & MSG_DONTWAIT) == 0) wait_ready(fd, POLLIN);
  if (is_held_back(fd)) return failed(EAGAIN);
  return ::recv(fd, to, size, flags);
}

NACRE_CALL ssize_t __wrap_send(int fd, const void* from, std::size_t size, int flags) {
  if ((flags & MSG_DONTWAIT) == 0) wait_ready(fd, POLLOUT);
  ssize_t sent = ::send(fd, from, size, flags | MSG_NOSIGNAL);
  return (flags & MSG_NOSIGNAL) != 0 ? sent : after_write(sent);
}

NACRE_CALL ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  if ((flags & MSG_DONTWAIT) == 0) wait_ready(fd, POLLOUT);
  ssize_t sent = ::sendmsg(fd, message, flags | MSG_NOSIGNAL);
  return (flags & MSG_NOSIGNAL) != 0 ? sent : after_write(sent);
}

NACRE_CALL ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  if ((flags & MSG_DONTWAIT) == 0) wait_ready(fd, POLLIN);
  if (is_held_back(fd)) return failed(EAGAIN);
  ssize_t got = ::recvmsg(fd, message, flags);
  if (got < 0 || !is_running()) return got;
  for (cmsghdr* each = CMSG_FIRSTHDR(message); each != nullptr; each = CMSG_NXTHDR(message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(each) + i * sizeof passed, sizeof passed);
      adopted(passed, "recvmsg");
    }
  }
  return got;
}

NACRE_CALL int __wrap_epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  return wait_epoll(epoll, events, most, timeout);
}

NACRE_CALL int __wrap_epoll_pwait(int epoll, epoll_event* events, int most, int timeout, const sigset_t*) {
  return wait_epoll(epoll, events, most, timeout);
}

NACRE_CALL int __wrap_poll(pollfd* fds, nfds_t count, int timeout) {
  int ready = ::poll(fds, count, 0);
  if (ready != 0 || timeout == 0 || !is_running()) return ready;
  Nanoseconds until = timeout < 0 ? kNever : kernel().now() + timeout * (kOneSecond / 1000);
  bool interrupted = kernel().wait({until, -1, {fds, fds + count}, false});
  ready = ::poll(fds, count, 0);
  return ready == 0 && interrupted ? failed(EINTR) : ready;
}

// Reads six arguments, of which there may be fewer.
NACRE_CALL __attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...) {
  long arguments[6];
  va_list rest;
  va_start(rest, number);
  for (long& each : arguments) each = va_arg(rest, long);
  va_end(rest);
  auto first = static_cast<unsigned>(arguments[0]);
  auto last = static_cast<unsigned>(arguments[1]);
  switch (number) {
    case SYS_pidfd_open: return kernel().open_pidfd(static_cast<pid_t>(arguments[0]));
    case SYS_close: return __wrap_close(static_cast<int>(arguments[0]));
    case SYS_clone: return __wrap_fork();
    case SYS_gettid: return __wrap_getpid();
    case SYS_prlimit64:
    case SYS_rt_sigaction:
    case SYS_sched_setaffinity:
    case SYS_set_mempolicy: return 0;
    case SYS_close_range: {
      if (is_newborn()) return newborn_close(first, last);
      const auto own = kernel().current().fds;
      for (const auto& [fd, call] : own) {
        if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) __wrap_close(fd);
      }
      return 0;
    }
    default: break;
  }
  return ::syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

NACRE_CALL int __wrap___open64_2(const char* path, int flags) { return open_one(AT_FDCWD, path, flags, 0); }
