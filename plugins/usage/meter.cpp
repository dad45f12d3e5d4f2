// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/meter.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostIoText = 4096;  // bytes of /proc/PID/io
constexpr unsigned kKibibyte = 10;

// The most resident memory that this process has had, in bytes: what a child is a copy of, or shares, until its
// execve(2).
std::optional<std::uint64_t> peak_of_this_process() {
  constexpr std::string_view kPeak = "VmHWM:";
  constexpr std::string_view kUnit = " kB";
  auto status = read_file("/proc/self/status");
  if (!status) return std::nullopt;
  for (std::string_view line : split(*status, '\n')) {
    if (!line.starts_with(kPeak) || !line.ends_with(kUnit)) continue;
    line.remove_suffix(kUnit.size());
    auto kibibytes = parse_u64(trim(line.substr(kPeak.size())));
    return kibibytes ? std::optional(*kibibytes << kKibibyte) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

TaskMeter::TaskMeter(plugin::Host& host, bool keeps_commands)
    : host_(host),
      keeps_commands_(keeps_commands),
      memory_(JobUsage::of_shell(::getpid())),
      oom_(OomKills::of_shell(::getpid())) {
  node_.shell = host.job().shell_rank;
  host_.children().look_before_reap([this](pid_t pid) { look(pid); });
}

TaskMeter::~TaskMeter() { host_.children().look_before_reap(nullptr); }

// getrusage(2) has also what this process was before its own execve(2), which tasks do not start as a copy of. So
// its value only shows whether the kernel's exact one has to be read again.
std::uint64_t TaskMeter::own_peak() {
  rusage own{};
  bool is_known = ::getrusage(RUSAGE_SELF, &own) == 0;
  if (is_known && peak_ == static_cast<std::uint64_t>(own.ru_maxrss) << kKibibyte) return peak_;
  if (auto peak = peak_of_this_process())
    peak_ = *peak;
  else if (is_known)
    peak_ = static_cast<std::uint64_t>(own.ru_maxrss) << kKibibyte;
  return peak_;
}

void TaskMeter::started(const task::Task& task) {
  running_[task.pid()] = {event::wall_clock(), event::clock_now(), own_peak(), task.io(), {}};
}

void TaskMeter::look(pid_t pid) {
  auto found = running_.find(pid);
  if (found == running_.end() || found->second.io_file < 0) return;
  std::array<char, kMostIoText> text{};
  ssize_t size = ::pread(found->second.io_file, text.data(), text.size(), 0);
  if (size > 0) found->second.io = usage::TaskIo::parse({text.data(), static_cast<std::size_t>(size)});
  if (size < 0 && errno == EACCES) ++closed_;
}

usage::TaskRow TaskMeter::exited(const task::Task& task) {
  usage::TaskRow out;
  out.rank = task.rank();
  out.status = task.status();
  if (keeps_commands_ && task.command().argv != host_.job().spec.command)
    out.command = usage::command_line(task.command().argv).substr(0, usage::TaskRow::kMaxCommand);
  if (task.pid() == 0) return out;
  auto found = running_.extract(task.pid());
  // None: the job was ended before task.fork was called.
  Start start = found ? found.mapped() : Start{event::wall_clock(), event::clock_now(), own_peak(), -1, {}};
  out.started = start.time;
  out.wall = std::max(0.0, (event::clock_now() - start.moment).count());
  out.take(task.usage(), start.own_peak);
  out.io = start.io;
  if (cgroups_ != nullptr) add_cgroup(task, out);
  if (plugin::TaskOutput* output = host_.task_output()) {
    auto written = output->written(task.rank());
    out.out = written.out;
    out.err = written.err;
  }
  ++node_.tasks;
  node_.cpu += out.cpu();
  return out;
}

void TaskMeter::add_cgroup(const task::Task& task, usage::TaskRow& row) const {
  auto used = cgroups_->take(task.rank(), task.attempt());
  if (!used) return;
  row.has_cgroup = true;
  row.user = used->user;
  row.system = used->system;
  row.oom_kills = used->oom_kills;
  if (!used->memory_peak) return;
  row.max_rss = *used->memory_peak;
  row.is_bound = false;
}

usage::NodeRow TaskMeter::node() {
  if (memory_.memory_by_cgroup()) {
    if (auto sample = memory_.sample({})) node_.memory_peak = sample->peak;
  }
  if (oom_.are_counted()) node_.oom_kills = oom_.fresh();
  return node_;
}

}  // namespace nacre::plugins
