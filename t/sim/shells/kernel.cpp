// SPDX-License-Identifier: Apache-2.0
#include "shells/kernel.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NACRE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define NACRE_ASAN 1
#endif
#ifdef NACRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace __cxxabiv1 {
struct __cxa_eh_globals;
extern "C" __cxa_eh_globals* __cxa_get_globals() noexcept;  // NOLINT: the C++ ABI's
}  // namespace __cxxabiv1

namespace nacre::shells {
namespace {

Kernel* the = nullptr;
constexpr std::uint64_t kMostIdleCalls = 100'000;

void begin_switch([[maybe_unused]] void** fake, [[maybe_unused]] const void* stack,
                  [[maybe_unused]] std::size_t size) {
#ifdef NACRE_ASAN
  __sanitizer_start_switch_fiber(fake, stack, size);
#endif
}

void end_switch([[maybe_unused]] void* fake, [[maybe_unused]] void** from, [[maybe_unused]] std::size_t* size) {
#ifdef NACRE_ASAN
  __sanitizer_finish_switch_fiber(fake, const_cast<const void**>(from), size);
#endif
}

void exchange_exceptions(std::array<char, 16>& out, const std::array<char, 16>& in) {
  auto* now = reinterpret_cast<char*>(__cxxabiv1::__cxa_get_globals());
  std::memcpy(out.data(), now, out.size());
  std::memcpy(now, in.data(), in.size());
}

void free_stack(char* stack) {
#ifdef NACRE_ASAN
  __asan_unpoison_memory_region(stack, Fiber::kStack);
#endif
  ::munmap(stack, Fiber::kStack);
}

int own_copy(int fd) { return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, kOwnDescriptors); }

void close_one(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

bool ignored_by_default(int signum) {
  return signum == SIGCHLD || signum == SIGCONT || signum == SIGURG || signum == SIGWINCH;
}

bool has_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool is_socket(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

// A link between shells, or a connection to one: one end has a path.
bool is_link(int fd) {
  sockaddr_un own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (!is_socket(fd) || ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) < 0) return false;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size);
  return (own.sun_family == AF_UNIX && own_size > sizeof(sa_family_t)) ||
         (peer.sun_family == AF_UNIX && peer_size > sizeof(sa_family_t));
}

std::string described(int fd) {
  std::array<char, 256> text{};
  ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), text.data(), text.size());
  return std::string(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
}

// "0:00:05.334418"
std::string time_text(Nanoseconds now) {
  std::array<char, 64> out{};
  auto seconds = static_cast<long>(now / kSecond);
  std::snprintf(out.data(), out.size(), "%ld:%02ld:%02ld.%06ld", seconds / 3600, seconds / 60 % 60, seconds % 60,
                static_cast<long>(now % kSecond / 1000));
  return out.data();
}

std::string describe_status(int status) {
  return WIFEXITED(status) ? "exits with " + std::to_string(WEXITSTATUS(status))
                           : "is ended by SIG" + std::string(::sigabbrev_np(WTERMSIG(status)));
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Kernel& Kernel::get() { return *the; }
bool Kernel::is_running() { return the != nullptr && the->current_ != nullptr; }

Kernel::Kernel(Options options) : options_(std::move(options)), random_(options_.seed) {
  the = this;
  ::signal(SIGPIPE, SIG_IGN);  // send_signal() does it
  for (int i = 0; i < 3; ++i) own_streams_[static_cast<std::size_t>(i)] = own_copy(i);
#ifdef NACRE_ASAN
  __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<std::intptr_t>(own_streams_[2])));
#endif
  int here = ::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  own_directory_ = own_copy(here);
  ::close(here);
}

Kernel::~Kernel() {
  on_step = nullptr;
  for (auto& [pid, process] : processes_) {
    if (process->is_over) continue;
    process->is_over = true;
    close_all(*process);
    if (process->fiber) process->fiber->image->is_taken = false;
  }
  for (auto& [pid, process] : processes_) {
    for (int& fd : process->watchers) close_one(fd);
  }
#ifdef NACRE_ASAN
  __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<std::intptr_t>(STDERR_FILENO)));
#endif
  for (int i = 0; i < 3; ++i) {
    int& fd = own_streams_[static_cast<std::size_t>(i)];
    if (fd >= 0) ::dup2(fd, i);
    close_one(fd);
  }
  [[maybe_unused]] int ok = ::fchdir(own_directory_);
  close_one(own_directory_);
  the = nullptr;
}

Process* Kernel::find(pid_t pid) {
  auto found = processes_.find(pid);
  return found == processes_.end() || found->second->is_reaped ? nullptr : found->second.get();
}

void Kernel::note(const std::string& who, const std::string& what) {
  for (const std::string* text : {&who, &what}) {
    for (char each : *text) digest_ = (digest_ ^ static_cast<unsigned char>(each)) * 1099511628211U;
  }
  digest_ = (digest_ ^ static_cast<std::uint64_t>(now_)) * 1099511628211U;
  if (!options_.traces) return;
  constexpr std::size_t kTime = 15, kWho = 18;
  std::string time = time_text(now_);
  trace_ += std::string(kTime - std::min(kTime, time.size()), ' ') + time + "  " + who +
            std::string(who.size() < kWho ? kWho - who.size() : 0, ' ') + "  " + what + '\n';
}

// Notes about an aide would not help a reader.
void Kernel::note(const Process& who, const std::string& what) {
  bool traces = options_.traces;
  if (who.kind == ProcessKind::aide) options_.traces = false;
  note(who.host.empty() ? who.name : who.name + " on " + who.host, what);
  options_.traces = traces;
}

void Kernel::named(Process& shell, std::uint32_t rank) {
  shell.name = "shell " + std::to_string(rank);
  if (options_.host_of) shell.host = options_.host_of(rank);
}

// ---- processes -----------------------------------------------------------------

pid_t Kernel::start_shell(std::vector<std::string> argv, std::map<std::string, std::string> environment,
                          std::array<int, 3> streams) {
  auto process = std::make_unique<Process>();
  Process& out = *process;
  out.pid = newborn_ ? newborn_->pid : new_pid();
  out.parent = newborn_ ? current_->pid : 1;
  out.group = newborn_ ? newborn_->group : out.pid;
  out.session = newborn_ ? newborn_->session : out.pid;
  out.death_signal = newborn_ ? newborn_->death_signal : 0;
  out.kind = ProcessKind::shell;
  out.name = "shell " + std::to_string(shells_++);
  out.started_by = out.parent;
  out.started_at = now_;
  for (std::size_t i = 0; i < 3; ++i) out.streams[i] = own_copy(streams[i]);
  out.fiber = std::make_unique<Fiber>();
  Fiber& fiber = *out.fiber;
  void* stack =
      ::mmap(nullptr, Fiber::kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw Defect{"no memory for a stack"};
  fiber.stack = {static_cast<char*>(stack), free_stack};
  fiber.image = &take_image();
  for (const std::string& each : argv) fiber.arguments += each + '\0';
  char* next = fiber.arguments.data();
  for (const std::string& each : argv) {
    fiber.argv.push_back(next);
    next += each.size() + 1;
  }
  fiber.argv.push_back(nullptr);
  fiber.environment = std::move(environment);
  fiber.directory = own_copy(is_running() ? fiber_directory() : own_directory_);
  if (is_running()) fiber.umask = this->fiber().umask;
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = Fiber::kStack;
  fiber.context.uc_link = nullptr;
  ::makecontext(&fiber.context, &Kernel::begin, 0);
  if (side_.contains(out.started_by)) side_.insert(out.pid);
  processes_[out.pid] = std::move(process);
  note(out, "is started");
  return out.pid;
}

int Kernel::fiber_directory() { return fiber().directory; }

// On the fiber of the shell.
void Kernel::begin() {
  Kernel& kernel = get();
  end_switch(nullptr, &kernel.scheduler_stack_, &kernel.scheduler_stack_size_);
  Fiber& fiber = kernel.fiber();
  publish_environment(fiber);
  int code = fiber.image->run_main(static_cast<int>(fiber.argv.size()) - 1, fiber.argv.data());
  exit_current(code);
}

void exit_current(int code) {
  Fiber& fiber = Kernel::get().fiber();
  while (!fiber.at_exit.empty()) {
    auto last = std::move(fiber.at_exit.back());
    fiber.at_exit.pop_back();
    last(code);
  }
  Kernel::get().end_current((code & 0xff) << 8);
}

void publish_environment(Fiber& fiber) {
  fiber.block.clear();
  fiber.pointers.clear();
  for (const auto& [name, value] : fiber.environment) fiber.block.push_back(name + "=" + value);
  for (std::string& each : fiber.block) fiber.pointers.push_back(each.data());
  fiber.pointers.push_back(nullptr);
  fiber.image->set_environment(fiber.pointers.data());
}

void Kernel::enter(Process& process) {
  if (entered_ == &process) return;
  entered_ = &process;
  for (int i = 0; i < 3; ++i) {
    int from = process.streams[static_cast<std::size_t>(i)];
    if (from >= 0)
      ::dup2(from, i);
    else
      ::close(i);
  }
  [[maybe_unused]] int ok = ::fchdir(process.fiber->directory);
  ::umask(process.fiber->umask);
}

// The process's descriptors leave 0 to 2.
void Kernel::leave(Process& process) {
  if (entered_ != &process) return;
  entered_ = nullptr;
  for (int i = 0; i < 3; ++i) ::dup2(own_streams_[static_cast<std::size_t>(i)], i);
  [[maybe_unused]] int ok = ::fchdir(own_directory_);
}

void Kernel::run(Process& process) {
  if (process.kind == ProcessKind::task) return act(process);
  enter(process);
  current_ = &process;
  Fiber& fiber = *process.fiber;
  digest_ = (digest_ ^ static_cast<std::uint64_t>(process.pid) ^ static_cast<std::uint64_t>(now_) ^
             (fiber.ready.size() << 32)) *
            1099511628211U;
  exchange_exceptions(scheduler_exceptions_, fiber.exceptions);
  begin_switch(&scheduler_fake_, fiber.stack.get(), Fiber::kStack);
  ::swapcontext(&scheduler_, &fiber.context);
  end_switch(scheduler_fake_, nullptr, nullptr);
  current_ = nullptr;
  if (process.is_over) {
    std::array<char, 16> gone{};
    exchange_exceptions(gone, scheduler_exceptions_);
    process.fiber->image->is_taken = false;
    process.fiber.reset();
  } else {
    exchange_exceptions(fiber.exceptions, scheduler_exceptions_);
  }
}

bool Kernel::wait(Wait what) {
  Fiber& own = fiber();
  own.wait = std::move(what);
  own.ready.clear();
  begin_switch(&own.fake_stack, scheduler_stack_, scheduler_stack_size_);
  ::swapcontext(&own.context, &scheduler_);
  end_switch(own.fake_stack, nullptr, nullptr);
  own.wait.reset();
  bool has = has_signal(*current_);
  handle_signals();
  return has;
}

void Kernel::end_current(int status) {
  Process& process = *current_;
  for (const auto& [fd, call] : process.fds) {
    process.left_open.push_back(std::to_string(fd) + " of " + call + ", " + described(fd));
  }
  finish(process, status);
  begin_switch(nullptr, scheduler_stack_, scheduler_stack_size_);
  ::setcontext(&scheduler_);
  std::abort();
}

void Kernel::close_all(Process& process) {
  leave(process);
  for (const auto& [fd, call] : process.fds) ::close(fd);
  process.fds.clear();
  for (int& fd : process.streams) close_one(fd);
  if (process.fiber) {
    close_one(process.fiber->directory);
    for (pthread_key_t each : process.fiber->keys) ::pthread_key_delete(each);
    process.fiber->keys.clear();
  }
  if (!process.task) return;
  for (auto& [number, fd] : process.task->others) close_one(fd);
}

void Kernel::finish(Process& process, int status) {
  process.is_over = true;
  process.status = status;
  process.ended_at = now_;
  note(process, describe_status(status));
  close_all(process);
  for (int fd : process.watchers) {
    std::uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(fd, &one, sizeof one);
  }
  if (on_end) on_end(process);
  orphan(process);
  tell_parent(process);
}

void Kernel::tell_parent(Process& process) {
  Process* parent = find(process.parent);
  if (parent == nullptr || parent->is_over) {
    process.is_reaped = true;
    return;
  }
  deliver(*parent, SIGCHLD);
}

// Does at once what the shell's guard would do: all that the shell has started ends with it.
void Kernel::orphan(Process& process) {
  for (auto& [pid, child] : processes_) {
    if (child->parent != process.pid || child->is_reaped) continue;
    child->parent = 1;
    if (child->is_over) {
      child->is_reaped = true;
    } else if (child->kind == ProcessKind::aide) {
      finish(*child, 0);
    } else if (child->death_signal != 0) {
      deliver(*child, child->death_signal);
    }
  }
}

pid_t Kernel::fork_aide() {
  auto process = std::make_unique<Process>();
  process->pid = new_pid();
  process->parent = current_->pid;
  process->group = current_->group;
  process->session = current_->session;
  process->name = "aide of " + current_->name;
  process->streams[0] = own_copy(fiber().last_pipe);  // the shell's writes to this pipe do not fail
  pid_t pid = process->pid;
  note(*process, "is forked");
  processes_[pid] = std::move(process);
  return pid;
}

void Kernel::end_aide(pid_t pid) {
  Process* process = find(pid);
  if (process != nullptr && process->kind == ProcessKind::aide && !process->is_over) finish(*process, 0);
}

int Kernel::open_pidfd(pid_t pid) {
  Process* process = find(pid);
  if (process == nullptr) {
    errno = ESRCH;
    return -1;
  }
  int fd = ::eventfd(process->is_over ? 1 : 0, EFD_CLOEXEC);
  if (fd < 0) return fd;
  adopt(fd, "pidfd_open");
  if (!process->is_over) process->watchers.push_back(own_copy(fd));
  return fd;
}

// ---- descriptors ---------------------------------------------------------------

void Kernel::adopt(int fd, const char* call) {
  if (fd < 0 || newborn_) return;
  if (fd < 3) return took_stream(fd);
  current_->fds[fd] = call;
  fiber().held_until.erase(fd);
  fiber().peers.erase(fd);
}

void Kernel::release(int fd) {
  if (fd < 0 || newborn_) return;
  if (fd < 3) return close_one(current_->streams[static_cast<std::size_t>(fd)]);
  current_->fds.erase(fd);
  fiber().held_until.erase(fd);
  fiber().peers.erase(fd);
}

void Kernel::listens(const std::string& path) { listeners_[path] = {current_->pid, {}}; }

void Kernel::connected(int fd, const std::string& path) {
  Listener& there = listeners_[path];
  there.callers.push_back(current_->pid);
  fiber().peers[fd] = there.owner;
}

// A listener takes connections in the order in which they were made.
void Kernel::accepted(int fd, const std::string& path) {
  std::deque<pid_t>& callers = listeners_[path].callers;
  if (callers.empty()) return;  // a front end
  fiber().peers[fd] = callers.front();
  callers.pop_front();
}

bool Kernel::are_apart(pid_t one, pid_t other) const {
  return now_ < divided_until_ && one != 0 && other != 0 && side_.contains(one) != side_.contains(other);
}

bool Kernel::is_apart(const Process& process, int fd) const {
  auto peer = process.fiber->peers.find(fd);
  return peer != process.fiber->peers.end() && are_apart(process.pid, peer->second);
}

bool Kernel::is_apart(const std::string& path) const {
  auto there = listeners_.find(path);
  return there != listeners_.end() && are_apart(current_->pid, there->second.owner);
}

void Kernel::took_stream(int fd) {
  int& own = current_->streams[static_cast<std::size_t>(fd)];
  close_one(own);
  own = own_copy(fd);
}

int Kernel::real_fd(int fd) const {
  if (!newborn_) return fd;
  auto found = newborn_->fds.find(fd);
  if (found != newborn_->fds.end()) return found->second;
  auto number = static_cast<unsigned>(fd);
  bool is_closed = std::any_of(newborn_->closed.begin(), newborn_->closed.end(),
                               [&](const auto& each) { return each.first <= number && number <= each.second; });
  return is_closed ? -1 : fd;
}

// ---- a process that vfork has made ------------------------------------------------

int Kernel::execute(const std::string& path, char* const* argv, char* const* environment) {
  std::map<std::string, std::string> variables;
  for (char* const* each = environment; each != nullptr && *each != nullptr; ++each) {
    std::string_view text = *each;
    std::size_t at = text.find('=');
    if (at != std::string_view::npos) variables[std::string(text.substr(0, at))] = text.substr(at + 1);
  }
  std::array<int, 3> streams{real_fd(0), real_fd(1), real_fd(2)};
  if (path == options_.program) {
    std::vector<std::string> words;
    for (char* const* each = argv; *each != nullptr; ++each) words.emplace_back(*each);
    start_shell(std::move(words), std::move(variables), streams);
    return 0;
  }
  if (::access(path.c_str(), X_OK) < 0) return errno;
  std::optional<std::uint32_t> rank;
  if (auto found = variables.find("FLUX_TASK_RANK"); found != variables.end() && path == options_.task)
    rank = static_cast<std::uint32_t>(std::stoul(found->second));
  TaskScript script = script_of(rank.value_or(UINT32_MAX));
  if (script.exec_error != 0) return script.exec_error;
  auto process = std::make_unique<Process>();
  process->pid = newborn_->pid;
  process->parent = current_->pid;
  process->group = newborn_->group;
  process->session = newborn_->session;
  process->death_signal = newborn_->death_signal;
  process->kind = ProcessKind::task;
  process->name = rank ? "task " + std::to_string(*rank) : base_name(path);
  process->host = current_->host;
  process->started_by = current_->pid;
  process->started_at = now_;
  process->task = std::make_unique<TaskRun>();
  process->task->script = std::move(script);
  process->task->rank = rank;
  process->task->due = now_;
  for (std::size_t i = 0; i < 3; ++i) process->streams[i] = own_copy(streams[i]);
  for (const auto& [number, fd] : newborn_->fds) {
    if (number > 2 && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) process->task->others[number] = own_copy(fd);
  }
  if (auto found = variables.find("PMI_FD"); found != variables.end()) {
    auto other = process->task->others.find(std::atoi(found->second.c_str()));
    if (other != process->task->others.end()) process->task->pmi.fd = other->second;
  }
  const std::uint32_t start = process->task->script.start;
  note(*process, "is started by " + current_->name + (start > 0 ? ", try " + std::to_string(start + 1) : ""));
  processes_[process->pid] = std::move(process);
  return 0;
}

void Kernel::end_newborn(int status) {
  auto process = std::make_unique<Process>();
  process->pid = newborn_->pid;
  process->parent = current_->pid;
  process->group = newborn_->group;
  process->name = "newborn";
  Process& out = *process;
  processes_[out.pid] = std::move(process);
  finish(out, status);
}

pid_t Kernel::newborn_over() {
  pid_t pid = newborn_->pid;
  for (auto& [number, fd] : newborn_->fds) close_one(fd);
  newborn_.reset();
  return pid;
}

// ---- signals -------------------------------------------------------------------

std::uint64_t bits_of(const sigset_t& set) {
  std::uint64_t out = 0;
  static_assert(sizeof set >= sizeof out);
  std::memcpy(&out, &set, sizeof out);
  return out;
}

bool Kernel::has_signal(const Process& process) const {
  const Fiber& fiber = *process.fiber;
  return (fiber.pending & ~fiber.blocked) != 0;
}

void Kernel::handle_signals() {
  Fiber& own = fiber();
  for (std::uint64_t next = 0; (next = own.pending & ~own.blocked) != 0;) {
    int signum = std::countr_zero(next) + 1;
    own.pending &= ~bit_of(signum);
    const struct sigaction action = own.actions[static_cast<std::size_t>(signum)];
    if (!has_handler(action)) {
      if (action.sa_handler == SIG_IGN || ignored_by_default(signum)) continue;
      end_current(signum);
    }
    if (signum != SIGCHLD) note(*current_, "gets SIG" + std::string(::sigabbrev_np(signum)));
    const std::uint64_t before = own.blocked;
    own.blocked |= bits_of(action.sa_mask) | bit_of(signum);
    siginfo_t info{};
    info.si_signo = signum;
    if ((action.sa_flags & SA_SIGINFO) != 0)
      action.sa_sigaction(signum, &info, nullptr);
    else
      action.sa_handler(signum);
    own.blocked = before;
  }
}

void Kernel::signal_task(Process& task, int signum) {
  TaskRun& run = *task.task;
  bool asks = signum == SIGTERM || signum == SIGINT || signum == SIGHUP;
  if (signum == SIGCONT) task.stopped_until = 0;
  if (ignored_by_default(signum)) return;
  if (signum == SIGSTOP || signum == SIGTSTP) {
    task.stopped_until = kNever;
  } else if (asks && run.script.ignores_term) {
    note(task, "ignores SIG" + std::string(::sigabbrev_np(signum)));
  } else if (asks && run.script.code_at_term >= 0) {
    run.ended_itself = true;
    write_last_words(task);
    finish(task, run.script.code_at_term << 8);
  } else {
    finish(task, signum);
  }
}

void Kernel::deliver(Process& to, int signum) {
  if (current_ != nullptr && signum == SIGTERM) to.asked_at = std::min(to.asked_at, now_);
  if (current_ != nullptr && signum == SIGKILL) to.killed_at = std::min(to.killed_at, now_);
  if (to.is_over || signum == 0) return;
  if (to.kind == ProcessKind::task) return signal_task(to, signum);
  if (to.kind == ProcessKind::aide) {
    if (signum == SIGKILL) finish(to, signum);  // it has all others blocked
    return;
  }
  if (signum == SIGCONT) to.stopped_until = 0;
  if (signum == SIGSTOP) {
    to.stopped_until = kNever;
    return;
  }
  if (signum == SIGKILL && &to == current_) end_current(signum);
  if (signum == SIGKILL) {
    finish(to, signum);
    to.fiber->image->is_taken = false;
    to.fiber.reset();
    return;
  }
  const struct sigaction& action = to.fiber->actions[static_cast<std::size_t>(signum)];
  bool is_default = !has_handler(action);
  if (is_default && (action.sa_handler == SIG_IGN || ignored_by_default(signum))) return;
  to.fiber->pending |= bit_of(signum);
}

int Kernel::send_signal(pid_t to, int signum) {
  if (to > 0) {
    Process* process = find(to);
    if (process == nullptr) return ESRCH;
    if (signum != 0) note(*current_, "sends SIG" + std::string(::sigabbrev_np(signum)) + " to " + process->name);
    deliver(*process, signum);
  } else {
    pid_t group = to == 0 ? current_->group : -to;
    std::vector<Process*> members;
    for (auto& [pid, each] : processes_) {
      if (each->group == group && !each->is_reaped) members.push_back(each.get());
    }
    if (members.empty()) return ESRCH;
    bool all_over = std::all_of(members.begin(), members.end(), [](Process* each) { return each->is_over; });
    if (signum != 0 && !all_over)
      note(*current_, "sends SIG" + std::string(::sigabbrev_np(signum)) + " to the group of " + members[0]->name);
    for (Process* each : members) deliver(*each, signum);
  }
  if (!newborn_) handle_signals();
  return 0;
}

// ---- faults --------------------------------------------------------------------

void Kernel::kill_from_outside(Process& process, int signum) {
  note("FAULT", "SIG" + std::string(::sigabbrev_np(signum)) + " to " + process.name);
  deliver(process, signum);
}

void Kernel::stop(Process& process, Nanoseconds length) {
  note("FAULT", process.name + " stands still for " + std::to_string(length / kMillisecond) + " ms");
  process.stopped_until = now_ + length;
}

bool Kernel::cut_link(Process& process) {
  std::vector<int> links;
  for (const auto& [fd, call] : process.fds) {
    if (is_link(fd)) links.push_back(fd);
  }
  if (links.empty()) return false;
  note("FAULT", "a link of " + process.name + " is cut");
  ::shutdown(links[random_.in(0, links.size() - 1)], SHUT_RDWR);
  return true;
}

void Kernel::divide(std::set<pid_t> side, Nanoseconds length) {
  note("FAULT", std::to_string(side.size()) + " shells and the others do not reach each other for " +
                    std::to_string(length / kMillisecond) + " ms");
  side_ = std::move(side);
  divided_until_ = now_ + length;
}

// ---- tasks ---------------------------------------------------------------------

void Kernel::act(Process& task) {
  TaskRun& run = *task.task;
  const TaskAct& each = run.script.acts.at(run.next);
  switch (each.kind) {
    case TaskAct::Kind::sleep: run.due = now_ + each.nanoseconds; break;
    case TaskAct::Kind::write:
      if (!write_some(task, each)) return;
      break;
    case TaskAct::Kind::close: close_one(task.streams[static_cast<std::size_t>(each.stream)]); break;
    case TaskAct::Kind::leave: leave_process(task); break;
    case TaskAct::Kind::init:
    case TaskAct::Kind::barrier:
    case TaskAct::Kind::finalize:
      if (!ask_pmi(task, each.kind)) return;
      break;
    case TaskAct::Kind::exit:
    case TaskAct::Kind::signal:
      run.ended_itself = true;
      return finish(task, each.kind == TaskAct::Kind::exit ? (each.code & 0xff) << 8 : each.code);
  }
  ++run.next;
  run.written = 0;
}

void Kernel::let_tasks_go_on() {
  constexpr int kMost = 4;
  if (!options_.overlaps || newborn_ || !random_.one_in(4)) return;
  std::vector<Process*> can;
  for (auto& [pid, each] : processes_) {
    if (each->task && is_runnable(*each)) can.push_back(each.get());
  }
  if (can.empty()) return;
  Process& one = *can[random_.in(0, can.size() - 1)];
  for (int acts = 0; acts < kMost && is_runnable(one); ++acts) act(one);
}

// The process gets its own session, so that no signal reaches it.
void Kernel::leave_process(Process& task) {
  auto process = std::make_unique<Process>();
  process->pid = process->group = process->session = new_pid();
  process->parent = 1;
  process->kind = ProcessKind::task;
  process->name = "left by " + task.name;
  process->host = task.host;
  process->task = std::make_unique<TaskRun>();
  process->task->is_left = true;
  process->task->due = kNever;
  for (std::size_t i = 0; i < 3; ++i) process->streams[i] = own_copy(task.streams[i]);
  note(task, "leaves a process that holds its output");
  processes_[process->pid] = std::move(process);
}

void Kernel::send_pmi(Process& task, TaskAct::Kind what) {
  PmiRun& pmi = task.task->pmi;
  Result<std::string> bytes = what == TaskAct::Kind::init      ? pmi.session.init()
                              : what == TaskAct::Kind::barrier ? pmi.session.barrier()
                                                               : pmi.session.finalize();
  if (!bytes) throw Defect{task.name + ": PMI: " + bytes.error().message};
  if (what == TaskAct::Kind::barrier) {
    note(task, "enters barrier " + std::to_string(++pmi.entered));
    if (on_barrier) on_barrier(task, false);
  }
  if (::send(pmi.fd, bytes->data(), bytes->size(), MSG_NOSIGNAL) < 0) pmi.is_over = true;
  pmi.waits = !pmi.is_over;
  pmi.can_read = false;
}

// True: the answer has come, or none will.
bool Kernel::ask_pmi(Process& task, TaskAct::Kind what) {
  PmiRun& pmi = task.task->pmi;
  if (pmi.fd < 0 || pmi.is_over) return true;
  if (!pmi.waits) {
    send_pmi(task, what);
    return pmi.is_over;
  }
  std::array<char, 4096> bytes{};
  ssize_t got = ::recv(pmi.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  pmi.can_read = false;
  if (got < 0 && errno == EAGAIN) return false;
  Result<std::optional<::nacre::pmi::ClientSession::Reply>> reply =
      pmi.session.receive({bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
  if (got > 0 && reply && !*reply) return false;
  pmi.waits = false;
  pmi.is_over = got <= 0 || !reply || what == TaskAct::Kind::finalize;
  if (what == TaskAct::Kind::barrier && got > 0 && reply) {
    note(task, "leaves barrier " + std::to_string(++pmi.left));
    if (on_barrier) on_barrier(task, true);
  }
  return true;
}

// True: all is written.
bool Kernel::write_some(Process& task, const TaskAct& each) {
  TaskRun& run = *task.task;
  const auto stream = static_cast<std::size_t>(each.stream);
  pollfd state{task.streams[stream], POLLOUT, 0};
  if (::poll(&state, 1, 0) == 0) {
    run.is_full = true;
    return false;
  }
  constexpr std::size_t kMost = 4096;  // a pipe that can be written to takes this many bytes
  std::size_t left = each.bytes.size() - run.written;
  std::size_t size = std::min<std::size_t>(left, random_.one_in(2) ? kMost : random_.in(1, kMost));
  ssize_t written = ::write(task.streams[stream], each.bytes.data() + run.written, size);
  if (written < 0) {
    finish(task, SIGPIPE);
    return false;
  }
  run.wrote[stream].append(each.bytes, run.written, static_cast<std::size_t>(written));
  run.written += static_cast<std::size_t>(written);
  return run.written == each.bytes.size();
}

// Writes as much as a pipe takes at once.
void Kernel::write_last_words(Process& task) {
  TaskRun& run = *task.task;
  pollfd state{task.streams[STDOUT_FILENO], POLLOUT, 0};
  if (run.written > 0 || run.script.last_words.empty() || ::poll(&state, 1, 0) == 0) return;
  const std::size_t size = std::min<std::size_t>(run.script.last_words.size(), PIPE_BUF);
  const ssize_t written = ::write(task.streams[STDOUT_FILENO], run.script.last_words.data(), size);
  if (written > 0) run.wrote[STDOUT_FILENO].append(run.script.last_words, 0, static_cast<std::size_t>(written));
}

// ---- the scheduler -----------------------------------------------------------------

Nanoseconds Kernel::tick() {
  // A shell that reads the clock again and again, and waits for nothing, also gets there.
  if (++idle_calls_ > kMostIdleCalls) now_ += kMillisecond;
  return now_;
}

// Collects what is ready in the shell's epoll set, and known to be ready by now, in an order from the seed.
bool Kernel::look_at_epoll(Process& process) {
  Fiber& own = *process.fiber;
  std::array<epoll_event, 64> events{};
  int count = ::epoll_wait(own.wait->epoll, events.data(), static_cast<int>(events.size()), 0);
  own.ready.clear();
  for (int i = 0; i < count; ++i) {
    const epoll_event& each = events[static_cast<std::size_t>(i)];
    int fd = each.data.fd;
    if (is_apart(process, fd)) continue;
    if (options_.most_delay > 0 && !own.held_until.contains(fd) && is_socket(fd)) {
      auto most = static_cast<std::uint64_t>(options_.most_delay);
      own.held_until[fd] = random_.one_in(3) ? now_ + static_cast<Nanoseconds>(random_.in(0, most)) : now_;
    }
    auto held = own.held_until.find(fd);
    if (held != own.held_until.end() && held->second > now_) continue;
    own.ready.push_back(each);
  }
  for (std::size_t i = own.ready.size(); i > 1; --i) std::swap(own.ready[i - 1], own.ready[random_.in(0, i - 1)]);
  return !own.ready.empty();
}

void Kernel::poll_waits() {
  polled_.clear();
  std::vector<pollfd> fds;
  std::vector<Process*> owners;
  for (auto& [pid, each] : processes_) {
    if (each->is_over) continue;
    if (each->task && each->task->is_full) {
      fds.push_back(
          {each->streams[static_cast<std::size_t>(each->task->script.acts[each->task->next].stream)], POLLOUT, 0});
      owners.push_back(each.get());
    }
    if (each->task && each->task->pmi.waits && !each->task->pmi.can_read) {
      fds.push_back({each->task->pmi.fd, POLLIN, 0});
      owners.push_back(each.get());
    }
    if (!each->fiber || !each->fiber->wait) continue;
    const Wait& wait = *each->fiber->wait;
    if (wait.epoll >= 0) {
      fds.push_back({wait.epoll, POLLIN, 0});
      owners.push_back(each.get());
    }
    for (const pollfd& fd : wait.fds) {
      // 0 to 2 are not in place while another runs
      int real = fd.fd >= 0 && fd.fd < 3 ? each->streams[static_cast<std::size_t>(fd.fd)] : fd.fd;
      fds.push_back({real, fd.events, 0});
      owners.push_back(each.get());
    }
  }
  ::poll(fds.data(), fds.size(), 0);
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    Process& owner = *owners[i];
    if (owner.task) {
      owner.task->is_full = false;
      owner.task->pmi.can_read = true;
    } else if (owner.fiber->wait->epoll < 0 || look_at_epoll(owner)) {
      polled_.insert(owner.pid);
    }
  }
}

bool Kernel::is_runnable(Process& process) {
  if (process.is_over || process.stopped_until > now_) return false;
  if (process.task) {
    const TaskRun& run = *process.task;
    return !run.is_full && run.due <= now_ && (!run.pmi.waits || run.pmi.can_read);
  }
  if (!process.fiber) return false;
  Fiber& own = *process.fiber;
  if (!own.wait || own.wait->until <= now_ || has_signal(process)) return true;
  if (polled_.contains(process.pid)) return true;
  return own.wait->for_child && std::any_of(processes_.begin(), processes_.end(), [&](const auto& each) {
           return each.second->parent == process.pid && each.second->is_over && !each.second->is_reaped;
         });
}

Nanoseconds Kernel::next_due() {
  Nanoseconds due = kNever;
  auto take = [&](Nanoseconds at) {
    if (at > now_) due = std::min(due, at);
  };
  take(divided_until_);
  for (auto& [pid, each] : processes_) {
    if (each->is_over) continue;
    if (each->stopped_until > now_) {
      take(each->stopped_until);
      continue;
    }
    if (each->task && !each->task->is_full) take(each->task->due);
    if (!each->fiber || !each->fiber->wait) continue;
    take(each->fiber->wait->until);
    for (const auto& [fd, until] : each->fiber->held_until) take(until);
  }
  return due;
}

bool Kernel::step(Nanoseconds until) {
  ++steps_;
  idle_calls_ = 0;
  poll_waits();
  std::vector<Process*> can;
  for (auto& [pid, each] : processes_) {
    if (is_runnable(*each)) can.push_back(each.get());
  }
  if (can.empty()) {
    Nanoseconds due = next_due();
    if (due > until) {
      now_ = std::max(now_, until == kNever ? now_ : until);
      return false;
    }
    now_ = due;
    return true;
  }
  Process& next = *can[random_.in(0, can.size() - 1)];
  run(next);
  if (options_.most_pause > 0 && random_.one_in(4))
    now_ += static_cast<Nanoseconds>(random_.in(0, static_cast<std::uint64_t>(options_.most_pause)));
  if (on_step) on_step();
  return true;
}

}  // namespace nacre::shells
