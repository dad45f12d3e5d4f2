// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/process_look.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "task/cgroups.hpp"

namespace nacre::plugins {
namespace {

std::string proc(pid_t pid, std::string_view file) { return fmt::format("/proc/{}/{}", pid, file); }

// Nanoseconds: it ran; it was ready; and how often.
double ready_time(pid_t pid) {
  auto text = read_file(proc(pid, "schedstat"));
  if (!text) return 0;
  std::vector<std::string_view> fields = split(trim(*text), ' ');
  constexpr double kNanoseconds = 1e9;
  return fields.size() < 2 ? 0 : static_cast<double>(parse_u64(fields[1]).value_or(0)) / kNanoseconds;
}

// "0": it runs. The other: the call has been restarted, and the kernel does not see where it is.
bool is_no_place(std::string_view where) { return where == "0" || where == "do_syscall_64"; }

struct NamedCall {
  long number;
  const char* name;
  bool has_fd;
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
    {SYS_futex, "futex", false},
    {SYS_wait4, "wait4", false},
    {SYS_waitid, "waitid", false},
    {SYS_nanosleep, "nanosleep", false},
    {SYS_clock_nanosleep, "clock_nanosleep", false},
    {SYS_ppoll, "ppoll", false},
    {SYS_pselect6, "pselect6", false},
    {SYS_epoll_pwait, "epoll_pwait", false},
    {SYS_rt_sigsuspend, "rt_sigsuspend", false},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait", false},
    {SYS_restart_syscall, "restart_syscall", false},  // a timed wait, after a stop or a tracer has interrupted it
    {SYS_sched_yield, "sched_yield", false},
    {SYS_semtimedop, "semtimedop", false},
    {SYS_msgrcv, "msgrcv", false},
    {SYS_msgsnd, "msgsnd", false},
#ifdef SYS_open  // not on every processor
    {SYS_open, "open", false},
    {SYS_poll, "poll", false},
    {SYS_select, "select", false},
    {SYS_epoll_wait, "epoll_wait", false},
    {SYS_pause, "pause", false},
#endif
};

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> list) {
  for (std::string_view each : list) {
    if (text.starts_with(each)) return true;
  }
  return false;
}

}  // namespace

// "rchar: 12\nwchar: 34\n...".
std::uint64_t bytes_moved_by(pid_t pid) {
  std::uint64_t out = 0;
  auto text = read_file(proc(pid, "io"));
  if (!text) return 0;
  for (std::string_view line : split(*text, '\n')) {
    for (std::string_view name : {"rchar: ", "wchar: "}) {
      if (line.starts_with(name)) out += parse_u64(line.substr(name.size())).value_or(0);
    }
  }
  return out;
}

std::optional<ProcessLook> look_at(pid_t pid) {
  auto stat = ProcessStat::of(pid);
  if (!stat) return std::nullopt;
  static const auto kTicks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  ProcessLook out;
  out.pid = pid;
  out.parent = stat->parent;
  out.name = stat->name;
  out.state = stat->state;
  out.cpu = static_cast<double>(stat->own_ticks()) / kTicks;
  out.started = static_cast<double>(stat->start) / kTicks;
  out.threads = stat->threads;
  out.ready = ready_time(pid);
  out.moved = bytes_moved_by(pid);
  if (auto where = read_file(proc(pid, "wchan")); where && !is_no_place(*where)) out.where = *where;
  return out;
}

// With version 1 it is in state D, with version 2 it sleeps where it would handle a signal, or where the kernel
// does not say.
bool is_frozen(const ProcessLook& look) {
  bool may_be =
      look.state == 'D' ||
      (look.state == 'S' && (look.where.empty() || look.where == "get_signal" || look.where == "do_freezer_trap"));
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
CallAnswer current_call(pid_t pid) {
  auto text = read_file(proc(pid, "syscall"));
  if (!text) return {{}, text.error().code == 0 ? EIO : text.error().code};
  std::vector<std::string_view> fields = split(trim(*text), ' ');
  auto number = parse_i64(fields[0]);
  if (!number || *number < 0) return {};
  SystemCall call;
  call.name = fmt::format("system call {}", *number);
  for (const NamedCall& each : kCalls) {
    if (each.number != *number) continue;
    call.name = each.name;
    if (!each.has_fd || fields.size() < 2) continue;
    unsigned long fd = std::strtoul(std::string(fields[1]).c_str(), nullptr, 16);
    call.fd = fd <= INT_MAX ? static_cast<int>(fd) : -1;
  }
  return {call, 0};
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
