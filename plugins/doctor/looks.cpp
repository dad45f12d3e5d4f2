// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/looks.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "event/children.hpp"
#include "plugins/doctor/stack_taker.hpp"
#include "task/cgroups.hpp"

namespace nacre::plugins {
namespace {

std::string proc(pid_t pid, std::string_view file) { return fmt::format("/proc/{}/{}", pid, file); }

constexpr double kNanoseconds = 1e9;   // of a second
constexpr double kMilliseconds = 1e3;  // of a second

// "0": the thread runs. The other: the call was restarted, and the kernel does not tell where it is.
bool is_no_place(std::string_view where) { return where == "0" || where == "do_syscall_64"; }

// How a call's arguments say that it returns after some time.
enum class Limit : std::uint8_t {
  none,          // it has no limit
  always,        // it always has one
  pointer,       // an argument is null if it has none
  milliseconds,  // an argument is below 0 if it has none
};

struct NamedCall {
  long number;
  const char* name;
  bool has_fd;
  Limit limit = Limit::none;
  std::size_t argument = 0;  // which argument has the limit
};

// The calls in which programs wait.
constexpr NamedCall kCalls[] = {
    {SYS_read, "read", true},
    {SYS_write, "write", true},
    {SYS_pread64, "pread64", true},
    {SYS_pwrite64, "pwrite64", true},
    {SYS_readv, "readv", true},
    {SYS_writev, "writev", true},
    {SYS_recvfrom, "recvfrom", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_sendto, "sendto", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_connect, "connect", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept4", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_getdents64, "getdents64", true},
    {SYS_openat, "openat", false},
    {SYS_futex, "futex", false, Limit::pointer, 3},
    {SYS_wait4, "wait4", false},
    {SYS_waitid, "waitid", false},
    {SYS_nanosleep, "nanosleep", false, Limit::always},
    {SYS_clock_nanosleep, "clock_nanosleep", false, Limit::always},
    {SYS_ppoll, "ppoll", false, Limit::pointer, 2},
    {SYS_pselect6, "pselect6", false, Limit::pointer, 4},
    {SYS_epoll_pwait, "epoll_pwait", false, Limit::milliseconds, 3},
    {SYS_rt_sigsuspend, "rt_sigsuspend", false},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait", false, Limit::pointer, 2},
    {SYS_restart_syscall, "restart_syscall", false,
     Limit::always},  // a timed wait, after a stop or a tracer has interrupted it
    {SYS_sched_yield, "sched_yield", false},
    {SYS_semtimedop, "semtimedop", false, Limit::pointer, 3},
    {SYS_msgrcv, "msgrcv", false},
    {SYS_msgsnd, "msgsnd", false},
#ifdef SYS_open  // not on every processor
    {SYS_open, "open", false},
    {SYS_poll, "poll", false, Limit::milliseconds, 2},
    {SYS_select, "select", false, Limit::pointer, 4},
    {SYS_epoll_wait, "epoll_wait", false, Limit::milliseconds, 3},
    {SYS_pause, "pause", false},
#endif
};

constexpr int kFutexLockPi2 = 13;  // FUTEX_LOCK_PI2 of Linux 5.14

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> list) {
  for (std::string_view each : list) {
    if (text.starts_with(each)) return true;
  }
  return false;
}

std::string proc(pid_t pid, pid_t tid, std::string_view file) {
  return fmt::format("/proc/{}/task/{}/{}", pid, tid, file);
}

double seconds_of_ticks(std::uint64_t ticks) {
  static const auto kTicks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(ticks) / kTicks;
}

// What follows the name on its line of /proc/PID/status and the like; "": there is no such line.
std::string_view value_of(std::string_view text, std::string_view name) {
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with(name)) return trim(line.substr(name.size()));
  }
  return "";
}

// In order, at most as many as are looked at.
std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> out = numbers_in(proc(pid, "task"));
  std::sort(out.begin(), out.end());
  if (out.size() > ProcessLook::kMostThreads) out.resize(ProcessLook::kMostThreads);
  return out;
}

// In seconds. None: the thread is gone, or the kernel does not count that.
std::optional<double> ready_of(pid_t pid, pid_t tid) {
  auto times = read_file(proc(pid, tid, "schedstat"));  // nanoseconds: it ran; it was ready; and how often
  if (!times) return std::nullopt;
  std::vector<std::string_view> fields = split(trim(*times), ' ');
  if (fields.size() < 2) return std::nullopt;
  return static_cast<double>(parse_u64(fields[1]).value_or(0)) / kNanoseconds;
}

std::optional<ThreadLook> look_at_thread(pid_t pid, pid_t tid) {
  auto text = read_file(proc(pid, tid, "stat"));
  auto stat = text ? ProcessStat::parse(*text) : std::nullopt;
  if (!stat) return std::nullopt;
  ThreadLook out;
  out.tid = tid;
  out.name = stat->name;
  out.state = stat->state;
  out.cpu = seconds_of_ticks(stat->own_ticks());
  out.ready = ready_of(pid, tid).value_or(0);
  if (auto where = read_file(proc(pid, tid, "wchan")); where && !is_no_place(*where)) out.where = *where;
  if (auto status = read_file(proc(pid, tid, "status")))
    out.waits = parse_u64(value_of(*status, "voluntary_ctxt_switches:")).value_or(0);
  return out;
}

std::optional<double> returns_after(const NamedCall& call, const std::array<std::uint64_t, 6>& arguments) {
  std::uint64_t value = arguments.at(call.argument);
  switch (call.limit) {
    case Limit::none: return std::nullopt;
    case Limit::always: return 0;
    case Limit::pointer: return value == 0 ? std::nullopt : std::optional(0.0);
    case Limit::milliseconds: break;
  }
  auto time = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
  return time < 0 ? std::nullopt : std::optional(time / kMilliseconds);
}

bool has_library(pid_t pid, std::initializer_list<std::string_view> names) {
  auto maps = read_file(proc(pid, "maps"));
  return maps && std::any_of(names.begin(), names.end(),
                             [&](std::string_view each) { return maps->find(each) != std::string::npos; });
}

// A thread of gloo, which has no name of its own, looks at its sockets a hundred times a second whether anybody
// waits or not.
bool is_loop_of_gloo(pid_t pid, pid_t tid, const SystemCall& call) {
  constexpr double kPeriod = 0.01;  // seconds
  return tid != pid && call.name.starts_with("epoll_") && call.limit == kPeriod &&
         has_library(pid, {"/libgloo", "/libtorch"});
}

// A thread that runs at the moment is soon back where it waits, if it only does so now and then.
CallAnswer call_waited_in(pid_t pid, const ThreadLook& thread) {
  constexpr int kMostTries = 4;
  constexpr timespec kPause{0, 500'000};
  CallAnswer out = current_call(pid, thread.tid);
  for (int i = 1; i < kMostTries && out.code == 0 && out.call.name.empty(); ++i) {
    ::nanosleep(&kPause, nullptr);
    out = current_call(pid, thread.tid);
  }
  return out;
}

enum class Waking : std::uint8_t { none, by_time, by_others };

// A thread that runs all the time sleeps now and then because of the kernel; a thread that sleeps often exchanges
// something with others.
Waking waking_of(pid_t pid, const ThreadLook& before, const ThreadLook& now, double interval) {
  constexpr double kRunsMostly = 0.5;  // of the interval
  constexpr double kOften = 100;       // times a second
  auto times = static_cast<double>(now.waits - before.waits);
  if (now.waits <= before.waits) return Waking::none;
  if (now.cpu - before.cpu + now.ready - before.ready >= kRunsMostly * interval)
    return times >= kOften * interval ? Waking::by_others : Waking::none;
  CallAnswer answer = call_waited_in(pid, now);
  bool is_known = answer.code == 0 && !answer.call.name.empty();
  if (!is_known) {
    bool sleeps = call_by_place(now.where.empty() ? before.where : now.where).name == "nanosleep";
    return sleeps ? Waking::by_time : Waking::by_others;
  }
  if (!answer.call.limit) return Waking::by_others;
  double limit = *answer.call.limit;
  constexpr double kInexact = 1.1;  // threads are not all looked at in the same moment
  if (limit > 0 && times > kInexact * interval / limit + 1) return Waking::by_others;
  return is_of_library(pid, now) || is_loop_of_gloo(pid, now.tid, answer.call) ? Waking::none : Waking::by_time;
}

bool has_waited(const ThreadLook* before, const ThreadLook& now) {
  return before != nullptr && before->state == 'S' && now.state == 'S' && before->waits == now.waits;
}

// "7f3009e9d000-7f3009f00000 rw-p ...", "rw-s": shared with other processes.
bool is_shared(pid_t pid, std::uint64_t address) {
  auto maps = read_file(proc(pid, "maps"));
  if (!maps) return true;
  for (std::string_view line : split(*maps, '\n')) {
    std::size_t dash = line.find('-');
    std::size_t blank = line.find(' ');
    if (dash == std::string_view::npos || blank == std::string_view::npos || dash > blank) continue;
    std::uint64_t from = std::strtoull(std::string(line.substr(0, dash)).c_str(), nullptr, 16);
    std::uint64_t to = std::strtoull(std::string(line.substr(dash + 1, blank - dash - 1)).c_str(), nullptr, 16);
    constexpr std::size_t kSharing = 4;  // characters behind the blank: "rw-p"
    if (address >= from && address < to)
      return line.substr(blank).size() <= kSharing || line[blank + kSharing] != 'p';
  }
  return true;
}

// Whether the process handles a signal of timers, of descriptors, or of other processes, whose handler may wake a
// thread.
bool may_wake_by_signal(pid_t pid) {
  auto status = read_file(proc(pid, "status"));
  if (!status) return true;
  std::uint64_t caught = std::strtoull(std::string(value_of(*status, "SigCgt:")).c_str(), nullptr, 16);
  constexpr std::uint64_t kOne = 1;
  for (int signal : {SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGUSR1, SIGUSR2}) {
    if ((caught & (kOne << (signal - 1))) != 0) return true;
  }
  return (caught >> (SIGRTMIN - 1)) != 0;
}

}  // namespace

// "rchar: 12\nwchar: 34\n...".
std::uint64_t bytes_moved_by(pid_t pid) {
  std::uint64_t out = 0;
  auto text = read_file(proc(pid, "io"));
  if (!text) return 0;
  for (std::string_view name : {"rchar:", "wchar:"}) out += parse_u64(value_of(*text, name)).value_or(0);
  return out;
}

std::optional<ProcessLook> look_at(pid_t pid) {
  auto stat = ProcessStat::of(pid);
  if (!stat) return std::nullopt;
  ProcessLook out;
  out.pid = pid;
  out.parent = stat->parent;
  out.name = stat->name;
  out.cpu = seconds_of_ticks(stat->own_ticks());
  out.started = seconds_of_ticks(stat->start);
  out.threads_in_all = stat->threads;
  out.moved = bytes_moved_by(pid);
  for (pid_t tid : threads_of(pid)) {
    if (auto thread = look_at_thread(pid, tid)) out.threads.push_back(*std::move(thread));
  }
  if (out.threads.empty()) return std::nullopt;
  return out;
}

std::optional<CpuLook> cpu_look_at(pid_t pid, std::size_t most_threads) {
  auto stat = ProcessStat::of(pid);
  if (!stat) return std::nullopt;
  CpuLook out;
  out.cpu = seconds_of_ticks(stat->own_ticks() + stat->children_ticks());
  auto add = [&](pid_t tid) {
    if (auto ready = ready_of(pid, tid)) out.ready.emplace(tid, *ready);
  };
  if (stat->threads < 2 || most_threads < 2) {
    add(pid);
    return out;
  }
  for (pid_t tid : threads_of(pid)) {
    if (out.ready.size() < most_threads) add(tid);
  }
  return out;
}

const ThreadLook& ProcessLook::first() const {
  const ThreadLook* own = thread(pid);
  return own == nullptr ? threads.front() : *own;
}

const ThreadLook* ProcessLook::thread(pid_t tid) const {
  auto found =
      std::find_if(threads.begin(), threads.end(), [&](const ThreadLook& each) { return each.tid == tid; });
  return found == threads.end() ? nullptr : &*found;
}

double ProcessLook::ready() const {
  double out = 0;
  for (const ThreadLook& each : threads) out += each.ready;
  return out;
}

// With version 1 it is in state D. With version 2 it sleeps at the place where it would handle a signal, or the
// kernel does not tell where.
bool is_frozen(const ProcessLook& look) {
  const ThreadLook& first = look.first();
  bool may_be = first.state == 'D' || (first.state == 'S' && (first.where.empty() || first.where == "get_signal" ||
                                                              first.where == "do_freezer_trap"));
  auto cgroups = may_be ? task::Cgroups::of_process(look.pid) : Error{ESRCH, ""};
  if (!cgroups) return false;
  if (auto unified = cgroups->unified_directory()) {
    auto frozen = task::read_keyed_number(*unified + "/cgroup.events", "frozen ");
    if (frozen && *frozen != 0) return true;
  }
  if (!cgroups->has("freezer")) return false;
  auto directory = cgroups->directory("freezer");
  auto state = directory ? read_file(*directory + "/freezer.state") : Error{ENOENT, ""};
  return state && trim(*state) == "FROZEN";
}

// "NUMBER ARG0 ...", the arguments in hex; "running"; "-1 ..." outside of a call.
CallAnswer current_call(pid_t pid, pid_t tid) {
  auto text = read_file(proc(pid, tid, "syscall"));
  if (!text) return {{}, text.error().code == 0 ? EIO : text.error().code};
  std::vector<std::string_view> fields = split(trim(*text), ' ');
  auto number = parse_i64(fields[0]);
  if (!number || *number < 0) return {};
  std::array<std::uint64_t, 6> arguments{};
  for (std::size_t i = 0; i < arguments.size() && i + 1 < fields.size(); ++i)
    arguments.at(i) = std::strtoull(std::string(fields[i + 1]).c_str(), nullptr, 16);
  SystemCall call;
  call.name = fmt::format("system call {}", *number);
  for (const NamedCall& each : kCalls) {
    if (each.number != *number) continue;
    call.name = each.name;
    if (each.has_fd && arguments[0] <= INT_MAX) call.fd = static_cast<int>(arguments[0]);
    call.limit = returns_after(each, arguments);
  }
  if (*number == SYS_futex) {
    auto what = static_cast<int>(arguments[1] & FUTEX_CMD_MASK);
    call.is_lock =
        what == FUTEX_WAIT || what == FUTEX_WAIT_BITSET || what == FUTEX_LOCK_PI || what == kFutexLockPi2;
    call.is_private = (arguments[1] & FUTEX_PRIVATE_FLAG) != 0;
    call.address = arguments[0];
  }
  return {call, 0};
}

Change change_of(const ProcessLook& before, const ProcessLook& now, double interval) {
  Change out;
  out.cpu = now.cpu - before.cpu;
  out.ready = now.ready() - before.ready();
  out.moves = before.moved != now.moved || before.threads_in_all != now.threads_in_all;
  for (const ThreadLook& thread : now.threads) {
    const ThreadLook* earlier = before.thread(thread.tid);
    if (earlier == nullptr) {
      out.moves = true;
      continue;
    }
    switch (waking_of(now.pid, *earlier, thread, interval)) {
      case Waking::none: break;
      case Waking::by_time: out.wakes = true; break;
      case Waking::by_others: out.moves = true; break;
    }
  }
  return out;
}

bool is_of_library(pid_t pid, const ThreadLook& thread) {
  constexpr std::pair<const char*, const char*> kOwn[] = {{"async", "/libucs."},
                                                          {"cuda-EvtHandlr", "/libcuda."},
                                                          {"pt_nccl_watchdg", "/libtorch"},
                                                          {"pt_nccl_heartbt", "/libtorch"}};
  for (const auto& [name, library] : kOwn) {
    if (thread.tid != pid && thread.name == name) return has_library(pid, {library});
  }
  return false;
}

std::set<pid_t> waiting_threads(const ProcessLook& before, const ProcessLook& now) {
  std::set<pid_t> out;
  for (const ThreadLook& each : now.threads) {
    if (!has_waited(before.thread(each.tid), each) || is_of_library(now.pid, each)) continue;
    CallAnswer answer = current_call(now.pid, each.tid);
    if (answer.code == 0 && !answer.call.name.empty() && !answer.call.limit) out.insert(each.tid);
  }
  return out;
}

std::uint64_t locked_threads(const ProcessLook& before, const ProcessLook& now) {
  if (now.threads_in_all != now.threads.size()) return 0;
  std::uint64_t out = 0;
  for (const ThreadLook& each : now.threads) {
    if (each.has_ended() || is_of_library(now.pid, each)) continue;
    if (!has_waited(before.thread(each.tid), each)) return 0;
    SystemCall call = current_call(now.pid, each.tid).call;
    if (!call.is_lock || call.limit || (!call.is_private && is_shared(now.pid, call.address))) return 0;
    ++out;
  }
  return may_wake_by_signal(now.pid) ? 0 : out;
}

GuessedCall call_by_place(const std::string& where) {
  if (begins_with_any(where, {"pipe_read", "anon_pipe_read", "fifo_pipe_read", "pipe_wait_readable"}))
    return {"read", "pipe"};
  if (begins_with_any(where, {"pipe_write", "anon_pipe_write", "fifo_pipe_write", "pipe_wait_writable"}))
    return {"write", "pipe"};
  if (begins_with_any(where, {"wait_for_partner", "fifo_open"})) return {"openat", "FIFO"};
  if (begins_with_any(where, {"n_tty_read", "wait_woken"})) return {"read", where[0] == 'n' ? "terminal" : ""};
  if (begins_with_any(where, {"unix_stream_read", "unix_stream_data_wait", "sk_wait_data", "tcp_recvmsg"}))
    return {"read", "socket"};
  if (begins_with_any(where, {"sock_alloc_send", "sk_stream_wait_memory"})) return {"write", "socket"};
  if (begins_with_any(where, {"futex_"})) return {"futex", ""};
  if (begins_with_any(where, {"do_wait"})) return {"wait4", ""};
  if (begins_with_any(where, {"ep_poll", "do_epoll_wait"})) return {"epoll_wait", ""};
  if (begins_with_any(where, {"poll_schedule_timeout", "do_sys_poll", "do_poll"})) return {"poll", ""};
  if (begins_with_any(where, {"do_select"})) return {"select", ""};
  if (begins_with_any(where, {"hrtimer_nanosleep", "do_nanosleep", "common_nsleep"})) return {"nanosleep", ""};
  return {};
}

DescriptorKind kind_of_descriptor(pid_t pid, int fd) {
  std::string at = fmt::format("/proc/{}/fd/{}", pid, fd);
  char link[PATH_MAX];
  ssize_t size = ::readlink(at.c_str(), link, sizeof link);
  struct stat about {};
  if (size <= 0 || ::stat(at.c_str(), &about) != 0) return {};
  DescriptorKind out;
  out.link.assign(link, static_cast<std::size_t>(size));
  constexpr unsigned kFirstPty = 136;  // devices.txt of the kernel: 136 to 143 are /dev/pts/N, 4 and 5 /dev/tty*
  constexpr unsigned kLastPty = 143;
  unsigned device = major(about.st_rdev);
  bool is_terminal = device == 4 || device == 5 || (device >= kFirstPty && device <= kLastPty);
  switch (about.st_mode & S_IFMT) {
    case S_IFIFO: out.object = "pipe"; break;
    case S_IFSOCK: out.object = "socket"; break;
    case S_IFCHR: out.object = is_terminal ? "terminal" : "device"; break;
    case S_IFREG: out.object = "file"; break;
    case S_IFDIR: out.object = "directory"; break;
    default: break;
  }
  if (out.object.empty() && out.link.starts_with("anon_inode:"))
    out.object = out.link.substr(sizeof "anon_inode:" - 1);
  if (out.link.starts_with('/') && out.object != "terminal") out.path = out.link;
  return out;
}

namespace {

using doctor::Doing;
using doctor::PipeEnd;

constexpr double kBusy = 0.5;   // of the interval
constexpr double kRuns = 0.05;  // of the interval: less does not make a process stand for its task

bool waits_for_child(const ProcessLook& look) { return look.first().where.starts_with("do_wait"); }

bool is_stuck(const ThreadLook* before, const ThreadLook& now, const Change& change) {
  if (now.state != 'D' || change.moves || change.cpu > 0) return false;
  return before == nullptr || (before->state == 'D' && before->waits == now.waits);
}

Doing doing_of(const ProcessLook* before, const ProcessLook& process, const ThreadLook& now, const Change& change,
               double interval) {
  const ThreadLook* earlier = before == nullptr ? nullptr : before->thread(now.tid);
  if (now.state == 'T') return Doing::stopped;
  if (now.state == 't') return Doing::traced;
  if (now.has_ended()) return process.threads_in_all > 1 ? Doing::busy : Doing::over;
  if (is_stuck(earlier, now, change)) return Doing::stuck;
  if (now.state == 'R' && (earlier == nullptr || earlier->state == 'R')) return Doing::busy;
  return before != nullptr && change.wanted() >= kBusy * interval ? Doing::busy : Doing::sleeps;
}

// The thread that ran most; null: none ran.
const ThreadLook* busiest_of(const ProcessLook* before, const ProcessLook& now, double interval) {
  const ThreadLook* out = nullptr;
  double most = kRuns * interval;
  for (const ThreadLook& each : now.threads) {
    const ThreadLook* earlier = before == nullptr ? nullptr : before->thread(each.tid);
    double wanted = each.cpu + each.ready - (earlier == nullptr ? 0 : earlier->cpu + earlier->ready);
    if (wanted < most) continue;
    most = wanted;
    out = &each;
  }
  return out;
}

bool waits_for_more(const SystemCall& call) {
  return call.fd >= 0 || call.name == "openat" || call.name == "open" || call.name.starts_with("wait");
}

// The first thread stands for the process; if it waits for another thread, one that waits for something else.
const ThreadLook& thread_that_stands_for(const ProcessLook* before, const ProcessLook& now, double interval) {
  if (const ThreadLook* busiest = busiest_of(before, now, interval)) return *busiest;
  const ThreadLook& first = now.first();
  if (now.threads.size() == 1 || !(first.has_ended() || first.where.starts_with("futex_"))) return first;
  for (const ThreadLook& each : now.threads) {
    if (!each.has_ended() && waits_for_more(current_call(now.pid, each.tid).call)) return each;
  }
  auto living =
      std::find_if(now.threads.begin(), now.threads.end(), [](const auto& each) { return !each.has_ended(); });
  return first.has_ended() && living != now.threads.end() ? *living : first;
}

bool others_wait_for_locks(const ProcessLook& process, pid_t tid) {
  if (process.threads_in_all != process.threads.size()) return false;
  return std::all_of(process.threads.begin(), process.threads.end(), [&](const ThreadLook& each) {
    if (each.tid == tid || each.has_ended() || is_of_library(process.pid, each)) return true;
    SystemCall call = current_call(process.pid, each.tid).call;
    return each.state == 'S' && call.is_lock && !call.limit;
  });
}

std::string why_unknown(int code) {
  std::string setting = trace_setting();
  if (code == ENOENT) setting = "the kernel has no /proc/PID/syscall";
  return fmt::format(
      "the system calls of tasks may not be known{}: what they wait for is guessed by the place in the "
      "kernel",
      setting.empty() ? "" : " (" + setting + ")");
}

}  // namespace

TaskLooks::TaskLooks(plugin::Host& host) : host_(host), begun_(event::clock_now()) {
  if (!has_proc()) notes_.insert("/proc is not mounted: what tasks do is not known, and they seem to be over");
  for (const auto& task : host_.tasks()) {
    if (task->state() == task::State::running) before_[task->rank()] = processes_of(*task);
  }
}

TaskLooks::Looks TaskLooks::processes_of(const task::Task& task) {
  Looks out;
  std::vector<pid_t> pids = event::descendants_of(task.pid(), event::best_lookup());
  pids.push_back(task.pid());
  for (pid_t pid : pids) {
    if (auto look = look_at(pid)) out.emplace(pid, *std::move(look));
  }
  return out;
}

const ProcessLook& TaskLooks::representative(const task::Task& task, const Looks& before, const Looks& now,
                                             double interval) {
  const ProcessLook* busiest = nullptr;
  double most = kRuns * interval;
  for (const auto& [pid, look] : now) {
    auto first = before.find(pid);
    double wanted =
        look.cpu + look.ready() - (first == before.end() ? 0 : first->second.cpu + first->second.ready());
    if (wanted < most) continue;
    most = wanted;
    busiest = &look;
  }
  if (busiest != nullptr) return *busiest;
  auto at = now.find(task.pid());
  const ProcessLook* out = at == now.end() ? &now.begin()->second : &at->second;
  for (std::size_t depth = 0; depth < now.size() && waits_for_child(*out); ++depth) {
    auto child =
        std::find_if(now.rbegin(), now.rend(), [&](const auto& each) { return each.second.parent == out->pid; });
    if (child == now.rend()) break;
    out = &child->second;
  }
  return *out;
}

std::vector<TaskLooks::Examined> TaskLooks::look_again() {
  const double interval = (event::clock_now() - begun_).count();
  std::vector<Examined> out;
  for (const auto& task : host_.tasks()) {
    if (task->state() == task::State::exited) continue;
    if (task->state() == task::State::running) now_[task->rank()] = processes_of(*task);
    out.push_back(examine(*task, interval));
  }
  add_pipe_ends(out);
  return out;
}

TaskLooks::Examined TaskLooks::examine(const task::Task& task, double interval) {
  Examined out;
  out.rank = task.rank();
  out.group.ranks.insert(task.rank());
  doctor::Fact& fact = out.group.fact;
  const Looks& before = before_[task.rank()];
  const Looks& now = now_[task.rank()];
  if (now.empty()) {
    fact.doing = task.state() == task::State::init ? Doing::not_started : Doing::over;
    return out;
  }
  const ProcessLook& look = representative(task, before, now, interval);
  auto found = before.find(look.pid);
  const ProcessLook* earlier = found == before.end() ? nullptr : &found->second;
  const ThreadLook& thread = thread_that_stands_for(earlier, look, interval);
  out.pid = look.pid;
  out.tid = thread.tid;
  fact.program = look.name;
  add_changes(before, now, interval, out.group);
  Change own =
      earlier == nullptr ? Change{look.cpu, look.ready(), true, false} : change_of(*earlier, look, interval);
  fact.doing = doing_of(earlier, look, thread, own, interval);
  if (is_frozen(look)) fact.doing = Doing::frozen;
  out.was_stopped = fact.doing == Doing::stopped;
  if (fact.doing == Doing::sleeps || fact.doing == Doing::stuck) {
    fact.where = thread.where;
    add_call(out, thread);
  }
  if (earlier != nullptr && look.threads.size() > 1) out.waiting = waiting_threads(*earlier, look);
  if (fact.doing == Doing::sleeps && earlier != nullptr) fact.locked = locked_threads(*earlier, look);
  auto first = now.find(task.pid());
  add_output(task, first == now.end() ? look.started : first->second.started, out.group);
  add_pmi(task, fact);
  return out;
}

// A process that has begun or ended counts as a move of its task.
void TaskLooks::add_changes(const Looks& before, const Looks& now, double interval, doctor::TaskGroup& group) {
  Change all;
  all.moves =
      std::any_of(before.begin(), before.end(), [&](const auto& each) { return !now.contains(each.first); });
  for (const auto& [pid, look] : now) {
    auto earlier = before.find(pid);
    Change own = earlier == before.end() ? Change{look.cpu, look.ready(), true, false}
                                         : change_of(earlier->second, look, interval);
    all = {all.cpu + own.cpu, all.ready + own.ready, all.moves || own.moves, all.wakes || own.wakes};
  }
  group.fact.moves = all.moves;
  group.fact.wakes = all.wakes && !all.moves;
  group.cpu.add(std::max(0.0, all.cpu / interval));
  group.ready.add(std::max(0.0, all.ready / interval));
}

void TaskLooks::add_call(Examined& examined, const ThreadLook& thread) {
  doctor::Fact& fact = examined.group.fact;
  CallAnswer answer = current_call(examined.pid, thread.tid);
  if (answer.code == ESRCH) return;
  if (answer.code != 0) {
    notes_.insert(why_unknown(answer.code));
    GuessedCall guess = call_by_place(fact.where);
    fact.call = guess.name;
    fact.object = guess.object;
    return;
  }
  fact.call = answer.call.name;
  if ((fact.call == "openat" || fact.call == "open") && call_by_place(fact.where).object == "FIFO")
    fact.object = "FIFO";
  if (answer.call.fd < 0) return;
  DescriptorKind kind = kind_of_descriptor(examined.pid, answer.call.fd);
  fact.object = kind.object;
  bool reads = fact.call.starts_with("read") || fact.call.starts_with("pread") || fact.call.starts_with("recv");
  bool writes = fact.call.starts_with("write");
  fact.is_input = reads && answer.call.fd == STDIN_FILENO;
  examined.group.path = kind.path;
  // A process that finds the path of a FIFO may still open its other end.
  if ((reads || writes) && kind.object == "pipe" && kind.path.empty()) pipes_[examined.rank] = kind.link;
}

void TaskLooks::add_pipe_ends(std::vector<Examined>& all) {
  std::set<std::string> links;
  for (const auto& [rank, link] : pipes_) links.insert(link);
  auto ends = pipe_ends(links);
  for (Examined& each : all) {
    auto link = pipes_.find(each.rank);
    if (link == pipes_.end()) continue;
    const PipeEnds& found = ends[link->second];
    doctor::Fact& fact = each.group.fact;
    if (fact.call.starts_with("write"))
      fact.reader = end_of(each, found.readers);
    else
      fact.writer = end_of(each, found.writers);
  }
}

// An ancestor in the task that waits for its child does not use the pipe either, but other threads of it may.
PipeEnd TaskLooks::end_of(const Examined& examined, const std::set<pid_t>& holders) const {
  if (holders.empty()) return PipeEnd::nobody;
  const Looks& looks = now_.at(examined.rank);
  std::set<pid_t> idle;
  auto at = looks.find(examined.pid);
  if (at == looks.end()) return PipeEnd::unknown;
  if (others_wait_for_locks(at->second, examined.tid)) idle.insert(examined.pid);
  for (std::size_t depth = 0; at != looks.end() && depth < looks.size(); ++depth) {
    at = looks.find(at->second.parent);
    if (at != looks.end() && waits_for_child(at->second)) idle.insert(at->first);
  }
  bool all_idle = std::all_of(holders.begin(), holders.end(), [&](pid_t each) { return idle.contains(each); });
  if (all_idle) return PipeEnd::itself;
  return holders == std::set<pid_t>{::getpid()} ? PipeEnd::shell : PipeEnd::others;
}

void TaskLooks::add_output(const task::Task& task, double started, doctor::TaskGroup& group) {
  auto* output = host_.task_output();
  auto written = output == nullptr ? plugin::TaskOutput::Written() : output->written(task.rank());
  if (!written.out || !written.err) return;
  double silent = written.last > 0 ? event::wall_clock() - written.last : seconds_since_boot() - started;
  group.silent.add(std::max(0.0, silent));
  group.bytes.add(static_cast<double>(*written.out + *written.err));
}

void TaskLooks::add_pmi(const task::Task& task, doctor::Fact& fact) {
  plugin::Call call("doctor.note");
  call.in["rank"] = task.rank();
  if (!host_.stack().call(call) || !call.out.is_object()) return;
  auto pmi = call.out.find("pmi");
  if (pmi == call.out.end() || !pmi->is_object()) return;
  auto state = pmi->find("state");
  if (state != pmi->end() && state->is_string() && *state != "none") fact.pmi = state->get<std::string>();
  auto barrier = pmi->find("barrier");
  if (barrier != pmi->end() && barrier->is_number_unsigned()) fact.barrier = barrier->get<std::uint64_t>();
}

// ---- pipe ends --------------------------------------------------------------------------

namespace {

// "pos:\t0\nflags:\t02000001\n...", octal. O_RDONLY, O_WRONLY or O_RDWR; -1: unknown.
int mode_of(pid_t pid, int fd) {
  auto text = read_file(fmt::format("/proc/{}/fdinfo/{}", pid, fd));
  if (!text) return -1;
  for (std::string_view line : split(*text, '\n')) {
    constexpr std::string_view kFlags = "flags:";
    if (!line.starts_with(kFlags)) continue;
    std::string digits(trim(line.substr(kFlags.size())));
    return static_cast<int>(std::strtoul(digits.c_str(), nullptr, 8) & O_ACCMODE);
  }
  return -1;
}

}  // namespace

std::map<std::string, PipeEnds> pipe_ends(const std::set<std::string>& links) {
  std::map<std::string, PipeEnds> out;
  if (links.empty()) return out;
  for (pid_t pid : numbers_in("/proc")) {
    std::string folder = fmt::format("/proc/{}/fd", pid);
    for (int fd : numbers_in(folder)) {
      char link[PATH_MAX];
      ssize_t size = ::readlink(fmt::format("{}/{}", folder, fd).c_str(), link, sizeof link);
      if (size <= 0) continue;
      auto found = links.find(std::string(link, static_cast<std::size_t>(size)));
      if (found == links.end()) continue;
      int mode = mode_of(pid, fd);
      if (mode == O_WRONLY || mode == O_RDWR) out[*found].writers.insert(pid);
      if (mode == O_RDONLY || mode == O_RDWR) out[*found].readers.insert(pid);
    }
  }
  return out;
}

}  // namespace nacre::plugins
