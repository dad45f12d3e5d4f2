// SPDX-License-Identifier: Apache-2.0
#include "task/child.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <string_view>

#include "base/text.hpp"

namespace nacre::task {
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

bool set_scheduler(int policy) {
  sched_param none{};
  return ::sched_setscheduler(0, policy, &none) == 0;
}

bool set_memory_policy(const MemoryPolicy& policy) {
  // The kernel reads one bit less than the number that it is given.
  std::size_t bits = policy.nodes.size() * sizeof(policy.nodes[0]) * CHAR_BIT + 1;
  return ::syscall(SYS_set_mempolicy, policy.mode, policy.nodes.data(), bits) == 0;
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
    for (unsigned fd = first; fd <= last && fd < plan.descriptor_limit; ++fd) ::close(static_cast<int>(fd));
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

std::vector<int> changed_signals() {
  std::vector<int> out;
  for (int signum = 1; signum < NSIG; ++signum) {
    struct sigaction action {};
    if (::sigaction(signum, nullptr, &action) == 0 && action.sa_handler != SIG_DFL) out.push_back(signum);
  }
  return out;
}

Plan::Plan(const Command& command, std::vector<int> changed)
    : setup(command.setup), parent(::getpid()), fds(command.setup.fds), signals(std::move(changed)) {
  std::vector<unsigned> targets;
  for (const ChildSetup::Fd& fd : fds) {
    targets.push_back(static_cast<unsigned>(fd.target));
    max_target = std::max(max_target, fd.target);
  }
  std::sort(targets.begin(), targets.end());
  closed = all_but(targets);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  descriptor_limit = static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
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
  if (setup.traced_by_siblings) ::prctl(PR_SET_PTRACER, plan.parent, 0, 0, 0);  // EINVAL: there is no Yama
  if (plan.io_socket >= 0) send_io(plan.io_socket);
  if (Failure failure = lead(setup); failure.step != Step::none) return failure;
  if (int code = setup.oom_score_adj ? set_oom_score(*setup.oom_score_adj) : 0; code != 0)
    return {Step::oom, code, 0};
  if (setup.scheduler && !set_scheduler(*setup.scheduler)) return failed(Step::scheduler);
  if (!setup.cpus.empty() && !setup.is_pretended) {
    std::size_t bytes = setup.cpus.size() * sizeof(setup.cpus[0]);
    if (::syscall(SYS_sched_setaffinity, 0, bytes, setup.cpus.data()) < 0) return failed(Step::affinity);
  }
  if (setup.memory && !setup.is_pretended && !set_memory_policy(*setup.memory)) return failed(Step::memory);
  if (setup.cwd && ::chdir(setup.cwd->c_str()) < 0) return failed(Step::directory);
  if (Failure failure = place_all(plan); failure.step != Step::none) return failure;
  // This also makes its process group the terminal's foreground group.
  if (setup.controlling_terminal && ::ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0) return failed(Step::terminal);
  close_others(plan);
  return set_limits(setup.limits);
}

int set_oom_score(const std::string& text) {
  int fd = open_own("/proc/self/oom_score_adj", O_WRONLY);
  if (fd < 0) return errno;
  int code = ::write(fd, text.data(), text.size()) < 0 ? errno : 0;
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
    denied = denied || code == EACCES;
  }
  if (image.candidates.size() > 1) code = denied ? EACCES : ENOENT;
  return {Step::exec, code, 0};
}

}  // namespace nacre::task
