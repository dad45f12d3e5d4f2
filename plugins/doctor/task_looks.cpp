// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/task_looks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "plugins/doctor/stack_taker.hpp"

namespace nacre::plugins {
namespace {

using doctor::Doing;
using doctor::PipeEnd;

constexpr double kBusy = 0.5;   // of the interval
constexpr double kRuns = 0.05;  // of the interval, for a process to stand for its task

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

// The one that ran most; null: none did.
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

// What the first thread waits for if that is another one: for that which waits for something else.
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

TaskLooks::TaskLooks(plugin::Host& host) : host_(host) {
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

std::vector<TaskLooks::Examined> TaskLooks::look_again(double interval) {
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

// A process that has begun or ended moves its task.
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
  // Whoever finds the path of a FIFO may open its other end yet.
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

// Those of its ancestors in the task that wait for their child use it neither; but other threads of its own may.
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

// The entries of a folder whose names are numbers.
void for_each_number(const std::string& path, const std::function<void(std::uint64_t)>& use) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return;
  while (const dirent* each = ::readdir(folder)) {
    if (auto number = parse_u64(each->d_name)) use(*number);
  }
  ::closedir(folder);
}

// "pos:\t0\nflags:\t02000001\n...", octal. O_RDONLY, O_WRONLY or O_RDWR; -1: unknown.
int mode_of(std::uint64_t pid, std::uint64_t fd) {
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
  for_each_number("/proc", [&](std::uint64_t pid) {
    std::string folder = fmt::format("/proc/{}/fd", pid);
    for_each_number(folder, [&](std::uint64_t fd) {
      char link[PATH_MAX];
      ssize_t size = ::readlink(fmt::format("{}/{}", folder, fd).c_str(), link, sizeof link);
      if (size <= 0) return;
      auto found = links.find(std::string(link, static_cast<std::size_t>(size)));
      if (found == links.end()) return;
      int mode = mode_of(pid, fd);
      if (mode == O_WRONLY || mode == O_RDWR) out[*found].writers.insert(static_cast<pid_t>(pid));
      if (mode == O_RDONLY || mode == O_RDWR) out[*found].readers.insert(static_cast<pid_t>(pid));
    });
  });
  return out;
}

}  // namespace nacre::plugins
