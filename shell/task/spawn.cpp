// SPDX-License-Identifier: Apache-2.0
#include "task/spawn.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/current_call.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "task/cpus.hpp"

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
Result<Started> start_shared(const Command& command, const Parent& parent) {
  Plan plan(command, parent);
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

Result<Started> start_forked(const Command& command, const Parent& parent, const Spawner::ChildHook& hook) {
  Plan plan(command, parent);
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

tl::expected<Spawned, SpawnError> spawn(const Command& command, const Parent& parent,
                                        const Spawner::ChildHook& hook) {
  if (command.argv.empty()) return tl::unexpected(SpawnError{.error = invalid("expected a command, got none")});
  // A traced child may stop before it executes, and a parent in vfork would not see that.
  bool own_memory = hook || command.setup.trace_me;
  Result<Started> started = own_memory ? start_forked(command, parent, hook) : start_shared(command, parent);
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
  return task::spawn(command, Parent::now(), hook);
}

// ---- child ------------------------------------------------------------------------------

namespace {

constexpr const char* kScriptShell = "/bin/sh";
constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// ---- In the parent -----------------------------------------------------------

std::vector<std::string> candidates_of(const Command& command) {
  const std::string& name = command.argv.front();
  if (name.empty() || name.find('/') != std::string::npos) return {name};
  std::vector<std::string> out;
  for (std::string_view folder : split(command.env.get("PATH").value_or(kDefaultPath), ':')) {
    // an empty entry means the current directory
    out.push_back(folder.empty() ? "./" + name : std::string(folder) + '/' + name);
  }
  return out;
}

// All descriptors from 3 on except those in `kept`, which is sorted.
std::vector<std::pair<unsigned, unsigned>> all_but(const std::vector<unsigned>& kept) {
  std::vector<std::pair<unsigned, unsigned>> out;
  unsigned next = 3;
  for (unsigned fd : kept) {
    if (fd < next) continue;
    if (fd > next) out.emplace_back(next, fd - 1);
    next = fd + 1;
  }
  out.emplace_back(next, UINT_MAX);
  return out;
}

// ---- In the child ------------------------------------------------------------

Failure failed(Step step, int detail = 0) { return {step, errno, detail}; }

// The leader of a group cannot make a session, and the leader of a session has a group already: so one or the
// other.
Failure lead(const ChildSetup& setup) {
  if (setup.controlling_terminal || setup.new_session) {
    if (::setsid() < 0) return failed(Step::session);
  } else if (setup.new_process_group && ::setpgid(0, 0) < 0) {
    return failed(Step::process_group);
  }
  return {};
}

// A process that leaves no core file (transport/secret.hpp) does not own its files in /proc: root does. This child
// is such a process until it execs; others that share its memory may do the same at the same time, so it may need
// several tries.
int open_own(const char* path, int mode) {
  constexpr int kTurns = 1000;
  int fd = ::open(path, mode | O_CLOEXEC);
  for (int i = 0; i < kTurns && fd < 0 && errno == EACCES; ++i) {
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    fd = ::open(path, mode | O_CLOEXEC);
    int code = errno;
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    errno = code;
  }
  return fd;
}

// To be measured is no reason not to start: what fails here, the parent does not get.
void send_io(int socket) {
  int fd = open_own("/proc/self/io", O_RDONLY);
  if (fd < 0) return;
  char one = 0;
  iovec bytes{&one, sizeof one};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::copy_n(reinterpret_cast<const unsigned char*>(&fd), sizeof fd, CMSG_DATA(header));
  ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(fd);
}

Failure make_settings(const Settings& settings) {
  Failure failure;
  int place = 0;
  Settings::for_each([&](auto setting) {
    const auto& value = settings.of(setting);
    if (value && failure.step == Step::none) {
      if (const int code = setting.set(*value); code != 0) failure = {Step::setting, code, place};
    }
    ++place;
  });
  return failure;
}

bool set_memory_policy(const MemoryPolicy& policy) {
  // The kernel reads one bit less than the number that it is given.
  std::size_t bits = policy.nodes.size() * sizeof(policy.nodes[0]) * CHAR_BIT + 1;
  return ::syscall(SYS_set_mempolicy, policy.mode, policy.nodes.data(), bits) == 0;
}

bool enter_container(const Container& container) {
  return container.namespaces == 0 || ::setns(container.process, container.namespaces) == 0;
}

bool place_null(int target) {
  int null = ::open("/dev/null", O_RDWR);
  if (null < 0 || null == target) return null == target;
  bool ok = ::dup2(null, target) >= 0;
  int code = errno;
  ::close(null);
  errno = code;
  return ok;
}

bool place(const ChildSetup::Fd& fd) {
  if (fd.source < 0) return place_null(fd.target);
  if (fd.source == fd.target) return ::fcntl(fd.target, F_SETFD, 0) >= 0;
  return ::dup2(fd.source, fd.target) >= 0;
}

Failure place_all(Plan& plan) {
  // first out of the way: one's source may be another's target
  for (ChildSetup::Fd& fd : plan.fds) {
    if (fd.source < 0 || fd.source == fd.target || fd.source > plan.max_target) continue;
    fd.source = ::fcntl(fd.source, F_DUPFD, plan.max_target + 1);
    if (fd.source < 0) return failed(Step::descriptors, fd.target);
  }
  for (const ChildSetup::Fd& fd : plan.fds) {
    if (!place(fd)) return failed(Step::descriptors, fd.target);
  }
  return {};
}

void close_others(const Plan& plan) {
  for (const auto& [first, last] : plan.closed) {
    if (::syscall(SYS_close_range, first, last, 0U) == 0) continue;
    // a kernel without close_range(2)
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; ++fd) ::close(static_cast<int>(fd));
  }
}

Failure set_limits(const std::vector<ChildSetup::Limit>& limits) {
  for (const ChildSetup::Limit& limit : limits) {
    // Not setrlimit(3), whose parameter is an enum that cannot hold every number.
    static_assert(sizeof(limit.value) == 2 * sizeof(std::uint64_t), "rlimit is as the kernel has it");
    bool set = ::syscall(SYS_prlimit64, 0, limit.resource, &limit.value, nullptr) == 0;
    if (!set) return failed(Step::limit, limit.resource);
  }
  return {};
}

// Whether execvp(3) tries the next folder of PATH after this errno.
bool looks_further(int code) {
  switch (code) {
    case EACCES:
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ENODEV:
    case ESTALE:
    case ETIMEDOUT: return true;
    default: return false;
  }
}

// The C library keeps the first real-time signals for itself, and its sigaction(3) refuses them; yet this process
// may have been started with them ignored, which exec would pass on.
void reset_reserved_signals() {
  static constexpr std::size_t kSetSize = NSIG / 8;
  static constexpr unsigned long kDefault[8] = {};  // the kernel's struct sigaction, in any order of its members
  for (int signum = __SIGRTMIN; signum < SIGRTMIN; ++signum) {
    ::syscall(SYS_rt_sigaction, signum, kDefault, nullptr, kSetSize);
  }
}

char* const* as_exec(const std::vector<const char*>& list) { return const_cast<char* const*>(list.data()); }

// Returns the errno.
int execute_file(Image& image, const std::string& path) {
  ::execve(path.c_str(), as_exec(image.argv), as_exec(image.env));
  int code = errno;
  if (code != ENOEXEC) return code;
  image.script_argv[1] = path.c_str();
  ::execve(kScriptShell, as_exec(image.script_argv), as_exec(image.env));
  return code;
}

}  // namespace

Image::Image(const Command& command)
    : script_argv{kScriptShell, nullptr}, env(command.env.block()), candidates(candidates_of(command)) {
  for (const std::string& each : command.argv) argv.push_back(each.c_str());
  argv.push_back(nullptr);
  script_argv.insert(script_argv.end(), argv.begin() + 1, argv.end());
}

Parent Parent::now() {
  Parent out{::getpid(), {}};
  for (int signum = 1; signum < NSIG; ++signum) {
    struct sigaction action {};
    if (::sigaction(signum, nullptr, &action) == 0 && action.sa_handler != SIG_DFL)
      out.changed_signals.push_back(signum);
  }
  return out;
}

Plan::Plan(const Command& command, const Parent& from)
    : setup(command.setup), parent(from.pid), fds(command.setup.fds), signals(from.changed_signals) {
  std::vector<unsigned> targets;
  for (const ChildSetup::Fd& fd : fds) {
    targets.push_back(static_cast<unsigned>(fd.target));
    max_target = std::max(max_target, fd.target);
  }
  std::sort(targets.begin(), targets.end());
  closed = all_but(targets);
}

void Plan::keep(int fd) {
  auto kept = static_cast<unsigned>(fd);
  auto range = std::find_if(closed.begin(), closed.end(),
                            [&](const auto& each) { return each.first <= kept && kept <= each.second; });
  if (range == closed.end()) return;
  auto [first, last] = *range;
  range = closed.erase(range);
  if (kept < last) range = closed.insert(range, {kept + 1, last});
  if (first < kept) closed.insert(range, {first, kept - 1});
}

void Plan::keep_crash_handlers() {
  std::erase_if(signals, [](int signum) {
    struct sigaction action {};
    bool crash = std::find(std::begin(kCrashSignals), std::end(kCrashSignals), signum) != std::end(kCrashSignals);
    // exec resets a handler, but leaves an ignored signal ignored.
    return crash && ::sigaction(signum, nullptr, &action) == 0 && action.sa_handler != SIG_IGN;
  });
}

Failure set_up(Plan& plan) {
  const ChildSetup& setup = plan.setup;
  if (setup.ends_with_parent && !setup.controlling_terminal) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(EXIT_FAILURE);  // the parent has ended before
  }
  if (setup.adopts) ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (setup.traced_by_siblings) ::prctl(PR_SET_PTRACER, plan.parent, 0, 0, 0);  // EINVAL: there is no Yama
  if (plan.io_socket >= 0) send_io(plan.io_socket);
  if (Failure failure = lead(setup); failure.step != Step::none) return failure;
  if (Failure failure = make_settings(setup.settings); failure.step != Step::none) return failure;
  if (!setup.cpus.empty() && !setup.is_pretended) {
    std::size_t bytes = setup.cpus.size() * sizeof(setup.cpus[0]);
    if (::syscall(SYS_sched_setaffinity, 0, bytes, setup.cpus.data()) < 0) return failed(Step::affinity);
  }
  if (setup.memory && !setup.is_pretended && !set_memory_policy(*setup.memory)) return failed(Step::memory);
  if (setup.container && !enter_container(*setup.container)) return failed(Step::container);
  if (setup.cwd && ::chdir(setup.cwd->c_str()) < 0) return failed(Step::directory);
  if (Failure failure = place_all(plan); failure.step != Step::none) return failure;
  // This also makes its process group the terminal's foreground group.
  if (setup.controlling_terminal && ::ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0) return failed(Step::terminal);
  close_others(plan);
  return set_limits(setup.limits);
}

int OomScore::set(const std::string& score) {
  int fd = open_own("/proc/self/oom_score_adj", O_WRONLY);
  if (fd < 0) return errno;
  int code = ::write(fd, score.data(), score.size()) < 0 ? errno : 0;
  ::close(fd);
  return code;
}

void reset_signals(const Plan& plan) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signum : plan.signals) ::sigaction(signum, &action, nullptr);
  reset_reserved_signals();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

Failure trace_me() {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) < 0) return failed(Step::trace);
  return {};
}

Failure execute(Image& image) {
  int code = ENOENT;
  bool denied = false;
  for (const std::string& path : image.candidates) {
    code = execute_file(image, path);
    if (!looks_further(code)) return {Step::exec, code, 0};
    // A folder of PATH that may not be searched is none: execvp(3) would have it that the program was denied.
    denied = denied || (code == EACCES && ::access(path.c_str(), F_OK) == 0);
  }
  if (image.candidates.front() != std::string_view(image.argv.front())) code = denied ? EACCES : ENOENT;
  return {Step::exec, code, 0};
}

// ---- failure ----------------------------------------------------------------------------

namespace {

// execve(2), "Limits on size of arguments and environment".
constexpr std::size_t kMaxString = std::size_t{128} << 10;  // bytes of one string with its NUL
constexpr std::size_t kMinTotal = std::size_t{128} << 10;   // bytes of all strings and the pointers to them
constexpr std::size_t kMaxTotal = std::size_t{6} << 20;
constexpr std::size_t kMostPath = 400;  // bytes of PATH in a message

// "RLIMIT_NOFILE".
std::string limit_macro(int resource) {
  auto name = limit_name(resource);
  if (!name) return fmt::format("resource limit {}", resource);
  std::string out = "RLIMIT_";
  for (char letter : *name) out += static_cast<char>(letter - 'a' + 'A');
  return out;
}

// How many bytes the kernel accepts in all, with the stack limit that the child had.
std::size_t total_limit(const ChildSetup& setup) {
  rlimit stack{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(RLIMIT_STACK, &stack);
  for (const ChildSetup::Limit& limit : setup.limits) {
    if (limit.resource == RLIMIT_STACK) stack = limit.value;
  }
  return std::clamp<std::size_t>(stack.rlim_cur / 4, kMinTotal, kMaxTotal);
}

std::string too_long(const Command& command) {
  std::size_t arguments = 0;
  for (std::size_t i = 0; i < command.argv.size(); ++i) {
    std::size_t size = command.argv[i].size() + 1;
    if (size > kMaxString) {
      return fmt::format("argument {} has {} bytes, of at most {}", i, size - 1, kMaxString - 1);
    }
    arguments += size + sizeof(char*);
  }
  std::size_t environment = 0;
  for (const auto& [name, value] : command.env.all()) {
    std::size_t size = name.size() + 1 + value.size() + 1;
    if (size > kMaxString) {
      return fmt::format("{} in the environment has {} bytes, of at most {}", in_quotes(name), size - 1,
                         kMaxString - 1);
    }
    environment += size + sizeof(char*);
  }
  return fmt::format(
      "the arguments take {} bytes and the environment {}, of at most {} (a quarter of ulimit -s, up to {})",
      arguments, environment, total_limit(command.setup), kMaxTotal);
}

// Whether the command's file exists, so that its interpreter or dynamic loader is what cannot be found.
bool lacks_interpreter(const Command& command) {
  std::string path = command.argv.front();
  if (path.find('/') == std::string::npos) return false;
  if (path.front() != '/' && command.setup.cwd) path = *command.setup.cwd + "/" + path;
  return ::access(path.c_str(), X_OK) == 0;
}

// For a name without a slash.
std::string where_it_was_looked_for(const Command& command) {
  auto path = command.env.get("PATH");
  std::string folders(path.value_or(kDefaultPath).substr(0, kMostPath));
  if (path && path->size() > kMostPath) folders += "...";
  return path ? fmt::format(" (PATH: {})", folders) : fmt::format(" (PATH is not set, so in {})", folders);
}

// For a name without a slash: it is not looked for in the working directory.
std::string lies_here(const Command& command) {
  const std::string& name = command.argv.front();
  const std::string path = command.setup.cwd.value_or(".") + '/' + name;
  struct stat status {};
  bool is_program =
      ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  return is_program ? fmt::format("; did you mean ./{}?", name) : "";
}

Error exec_error(const Command& command, int code) {
  Error error = system_error(code, command.argv.front());
  bool is_name = !command.argv.front().empty() && command.argv.front().find('/') == std::string::npos;
  if (code == ENOENT && is_name) error.message += where_it_was_looked_for(command);
  if (code == ENOENT && command.setup.container) {
    error.message += " (it was looked for in the container)";
    return error;  // what follows looks at this host's files
  }
  if (code == ENOENT && is_name) error.message += lies_here(command);
  if (code == E2BIG) error.message += ": " + too_long(command);
  if (code == ENOENT && lacks_interpreter(command)) {
    error.message += " (the file is there, but not the interpreter or loader that it names)";
  }
  return error;
}

Error directory_error(const ChildSetup& setup, int code) {
  const std::string path = setup.cwd.value_or("");
  Error error = system_error(code, "cannot change to directory " + path);
  if (code == ENOENT && setup.container)
    error.message +=
        fmt::format(" (the container does not have it: container.bind={0}:{0} takes this host's)", path);
  return error;
}

// What the setting at this place attempts.
std::string attempt_of(const Settings& settings, int place) {
  std::string out;
  Settings::for_each([&](auto setting) {
    if (place-- == 0) out = setting.attempt(*settings.of(setting));
  });
  return out;
}

Error memory_error(const MemoryPolicy& policy, int code) {
  Error error = system_error(code, "cannot set the memory policy to " + memory_policy_text(policy));
  if (code == EINVAL) error.message += " (is it one of Mems_allowed_list in /proc/self/status?)";
  if (code == ENOSYS) error.message += " (this kernel has no NUMA)";
  if (code == EPERM) error.message += " (a container may forbid it)";
  return error;
}

}  // namespace

Error describe(const Command& command, const Failure& failure) {
  const ChildSetup& setup = command.setup;
  auto cannot = [&](const std::string& what) { return system_error(failure.code, "cannot " + what); };
  switch (failure.step) {
    case Step::session: return cannot("lead a session");
    case Step::process_group: return cannot("make a process group");
    case Step::setting: return cannot(attempt_of(setup.settings, failure.detail));
    case Step::affinity: return cannot("bind to cpus");
    case Step::memory: return memory_error(*setup.memory, failure.code);
    case Step::container: return cannot("enter the container");
    case Step::directory: return directory_error(setup, failure.code);
    case Step::descriptors: return cannot(fmt::format("set up descriptor {}", failure.detail));
    case Step::terminal: return cannot("take its standard input as its controlling terminal");
    case Step::limit: return cannot("set " + limit_macro(failure.detail));
    case Step::hook: return Error{failure.code, "a task.exec plugin failed"};
    case Step::trace: return cannot("be traced");
    case Step::none:
    case Step::exec: break;
  }
  return exec_error(command, failure.code);
}

Error fork_error(int code) {
  Error error = system_error(code, "cannot start more processes");
  if (code != EAGAIN) return error;
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(RLIMIT_NPROC, &limit);
  std::string most = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
  error.message += fmt::format(" (limit: ulimit -u {}, or the cgroup's pids.max)", most);
  return error;
}

// ---- spawn pool -------------------------------------------------------------------------

unsigned SpawnPool::useful_threads() {
  unsigned cpus = std::thread::hardware_concurrency();  // considers sched_getaffinity(2); 0: unknown
  return std::clamp(cpus, 1U, kMaxThreads);
}

SpawnPool::SpawnPool(unsigned threads) : wanted_(threads > 0 ? threads - 1 : 0) {}

SpawnPool::~SpawnPool() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

void SpawnPool::begin(const Command& command) {
  constexpr std::size_t kLookAgain = 64;  // commands
  if (looked_ == 0) {
    parent_ = std::make_shared<const Parent>(Parent::now());
    looked_ = kLookAgain;
  }
  --looked_;
  ++under_way_;
  std::unique_lock lock(mutex_);
  items_.push_back({&command, parent_});
  if (threads_.size() < wanted_ && items_.size() - next_ > kAlone) make_threads();
  const bool is_one_idle = idle_ > 0;
  lock.unlock();
  if (is_one_idle) changed_.notify_one();
}

std::vector<SpawnPool::Over> SpawnPool::take() {
  std::vector<Over> out;
  if (under_way_ == 0) return out;
  std::lock_guard lock(mutex_);
  for (; !items_.empty() && items_.front().outcome; --next_) {
    Item& first = items_.front();
    out.push_back({first.command, *std::move(first.outcome), first.times});
    items_.pop_front();
  }
  under_way_ -= out.size();
  return out;
}

void SpawnPool::work() {
  if (under_way_ == 0) return;
  std::unique_lock lock(mutex_);
  if (items_.front().outcome) return;
  if (has_waiting()) return start_next(lock);
  over_changed_.wait(lock, [this] { return items_.front().outcome.has_value(); });
}

void SpawnPool::start_next(std::unique_lock<std::mutex>& lock) {
  Item& item = items_[next_++];
  lock.unlock();
  if (are_times_wanted_) item.times.begun = event::clock_now();
  Outcome outcome = task::spawn(*item.command, *item.parent);
  if (are_times_wanted_) item.times.over = event::clock_now();
  lock.lock();
  item.outcome = std::move(outcome);
  if (&item == &items_.front()) over_changed_.notify_one();
}

// std::thread would throw if the system has no more threads.
void SpawnPool::make_threads() {
  SignalsBlocked blocked;  // signals are for the caller's thread
  while (threads_.size() < wanted_) {
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, serve, this) != 0) {
      wanted_ = static_cast<unsigned>(threads_.size());
      return;
    }
    threads_.push_back(thread);
  }
}

void* SpawnPool::serve(void* pool) {
  static_cast<SpawnPool*>(pool)->serve();
  return nullptr;
}

void SpawnPool::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || has_waiting(); });
    --idle_;
    if (ending_) return;
    start_next(lock);
  }
}

}  // namespace nacre::task
