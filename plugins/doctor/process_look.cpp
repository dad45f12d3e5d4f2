// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/process_look.hpp"

#include <dirent.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "task/cgroups.hpp"

namespace nacre::plugins {
namespace {

std::string proc(pid_t pid, std::string_view file) { return fmt::format("/proc/{}/{}", pid, file); }

constexpr double kNanoseconds = 1e9;   // of a second
constexpr double kMilliseconds = 1e3;  // likewise

// "0": it runs. The other: the call has been restarted, and the kernel does not see where it is.
bool is_no_place(std::string_view where) { return where == "0" || where == "do_syscall_64"; }

// How a call says when it returns whatever comes.
enum class Limit : std::uint8_t {
  none,          // it does not
  always,        // it does
  pointer,       // by an argument that is null where it does not
  milliseconds,  // by an argument that is below 0 where it does not
};

struct NamedCall {
  long number;
  const char* name;
  bool has_fd;
  Limit limit = Limit::none;
  std::size_t argument = 0;  // that has the limit
};

// Those in which programs wait.
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
  std::vector<pid_t> out;
  DIR* folder = ::opendir(proc(pid, "task").c_str());
  if (folder == nullptr) return out;
  while (const dirent* each = ::readdir(folder)) {
    if (auto number = parse_u64(each->d_name)) out.push_back(static_cast<pid_t>(*number));
  }
  ::closedir(folder);
  std::sort(out.begin(), out.end());
  if (out.size() > ProcessLook::kMostThreads) out.resize(ProcessLook::kMostThreads);
  return out;
}

// Seconds. None: it is gone, or the kernel does not count that.
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

enum class Waking : std::uint8_t { none, by_time, by_others };

// A thread that runs all the time sleeps now and then for reasons of the kernel's; one that sleeps often exchanges
// something with others.
Waking waking_of(pid_t pid, const ThreadLook& before, const ThreadLook& now, double interval) {
  constexpr double kRunsMostly = 0.5;  // of the interval
  constexpr double kOften = 100;       // times a second
  auto times = static_cast<double>(now.waits - before.waits);
  if (now.waits <= before.waits) return Waking::none;
  if (now.cpu - before.cpu + now.ready - before.ready >= kRunsMostly * interval)
    return times >= kOften * interval ? Waking::by_others : Waking::none;
  CallAnswer answer = current_call(pid, now.tid);
  bool is_known = answer.code == 0 && !answer.call.name.empty();
  if (!is_known) {
    bool sleeps = call_by_place(now.where.empty() ? before.where : now.where).name == "nanosleep";
    return sleeps ? Waking::by_time : Waking::by_others;
  }
  if (!answer.call.limit) return Waking::by_others;
  double limit = *answer.call.limit;
  return limit > 0 && times > interval / limit + 1 ? Waking::by_others : Waking::by_time;
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

// It handles a signal of timers, of descriptors, or of other processes, and its handler may wake a thread.
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

// With version 1 it is in state D, with version 2 it sleeps where it would handle a signal, or where the kernel
// does not say.
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
  constexpr std::pair<const char*, const char*> kOwn[] = {{"async", "/libucs."}, {"cuda-EvtHandlr", "/libcuda."}};
  for (const auto& [name, library] : kOwn) {
    if (thread.tid == pid || thread.name != name) continue;
    auto maps = read_file(proc(pid, "maps"));
    return maps && maps->find(library) != std::string::npos;
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

}  // namespace nacre::plugins
