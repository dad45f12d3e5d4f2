// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/task_looks.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/process_stat.hpp"
#include "event/clock.hpp"
#include "event/process_tree.hpp"
#include "plugins/doctor/pipe_writers.hpp"
#include "plugins/doctor/trace_rights.hpp"

namespace nacre::plugins {
namespace {

using doctor::Doing;
using doctor::PipeWriter;

constexpr double kBusy = 0.5;   // of the interval
constexpr double kRuns = 0.05;  // of the interval, for a process to stand for its task

// Seconds in which it ran or was ready to run.
double wanted_cpu(const ProcessLook& before, const ProcessLook& now) {
  return (now.cpu - before.cpu) + (now.ready - before.ready);
}

bool waits_for_child(const ProcessLook& look) { return look.where.starts_with("do_wait"); }

Doing doing_of(const ProcessLook* before, const ProcessLook& now, double interval) {
  bool is_new = before == nullptr;
  switch (now.state) {
    case 'T': return Doing::stopped;
    case 't': return Doing::traced;
    case 'Z':
    case 'X': return now.threads > 1 ? Doing::busy : Doing::over;
    case 'D': return is_new || before->state == 'D' ? Doing::stuck : Doing::sleeps;
    default: break;
  }
  if (now.state == 'R' && (is_new || before->state == 'R')) return Doing::busy;
  return !is_new && wanted_cpu(*before, now) >= kBusy * interval ? Doing::busy : Doing::sleeps;
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
    double wanted = first == before.end() ? look.cpu : wanted_cpu(first->second, look);
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
  add_writers(out);
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
  auto first = before.find(look.pid);
  out.pid = look.pid;
  fact.program = look.name;
  fact.doing = doing_of(first == before.end() ? nullptr : &first->second, look, interval);
  if (is_frozen(look)) fact.doing = Doing::frozen;
  out.was_stopped = fact.doing == Doing::stopped;
  double cpu = 0, ready = 0;
  for (const auto& [pid, each] : now) {
    auto earlier = before.find(pid);
    ready += each.ready - (earlier == before.end() ? 0 : earlier->second.ready);
    cpu += each.cpu - (earlier == before.end() ? 0 : earlier->second.cpu);
    fact.moves = fact.moves || (earlier != before.end() && earlier->second.moved != each.moved);
  }
  out.group.cpu.add(std::max(0.0, cpu / interval));
  out.group.ready.add(std::max(0.0, ready / interval));
  if (fact.doing == Doing::sleeps || fact.doing == Doing::stuck) {
    fact.where = look.where;
    add_call(out);
  }
  auto own = now.find(task.pid());
  add_output(task, own == now.end() ? look.started : own->second.started, out.group);
  add_pmi(task, fact);
  return out;
}

void TaskLooks::add_call(Examined& examined) {
  doctor::Fact& fact = examined.group.fact;
  CallAnswer answer = current_call(examined.pid);
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
  fact.is_input = reads && answer.call.fd == STDIN_FILENO;
  examined.group.path = kind.path;
  if (reads && kind.object == "pipe") read_[examined.rank] = kind.link;
}

void TaskLooks::add_writers(std::vector<Examined>& all) {
  std::set<std::string> links;
  for (const auto& [rank, link] : read_) links.insert(link);
  auto writers = pipe_writers(links);
  for (Examined& each : all) {
    auto link = read_.find(each.rank);
    if (link != read_.end()) each.group.fact.writer = writer_of(each, writers[link->second]);
  }
}

// Those of its ancestors in the task that wait for their child do not write either.
PipeWriter TaskLooks::writer_of(const Examined& reader, const std::set<pid_t>& writers) const {
  if (writers.empty()) return PipeWriter::nobody;
  const Looks& looks = now_.at(reader.rank);
  std::set<pid_t> idle{reader.pid};
  auto at = looks.find(reader.pid);
  for (std::size_t depth = 0; at != looks.end() && depth < looks.size(); ++depth) {
    at = looks.find(at->second.parent);
    if (at != looks.end() && waits_for_child(at->second)) idle.insert(at->first);
  }
  bool all_idle = std::all_of(writers.begin(), writers.end(), [&](pid_t each) { return idle.contains(each); });
  if (all_idle) return PipeWriter::itself;
  return writers == std::set<pid_t>{::getpid()} ? PipeWriter::shell : PipeWriter::others;
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

}  // namespace nacre::plugins
