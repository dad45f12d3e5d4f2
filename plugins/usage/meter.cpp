// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/meter.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "task/cgroups.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {
namespace {

constexpr mode_t kCgroupMode = 0755;
constexpr int kMostRemovals = 50;  // tries, of 10 ms: killed processes need a moment to go
constexpr std::chrono::milliseconds kBetweenRemovals{10};

// A cgroup's file takes each command as one write(2). Returns 0 or errno.
int put(const std::string& file, std::string_view text) {
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return fd ? write_all(fd.get(), text) : errno;
}

bool has_word(const std::string& file, std::string_view word) {
  auto text = read_file(file);
  if (!text) return false;
  auto words = split(trim(*text), ' ');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<pid_t> processes_in(const std::string& cgroup) {
  std::vector<pid_t> out;
  auto text = read_file(cgroup + "/cgroup.procs");
  if (!text) return out;
  for (std::string_view line : split(*text, '\n')) {
    if (auto pid = parse_u64(line)) out.push_back(static_cast<pid_t>(*pid));
  }
  return out;
}

// Kills what runs in the cgroup.
void remove_now(const std::string& cgroup) {
  for (int i = 0; i < kMostRemovals; ++i) {
    if (::rmdir(cgroup.c_str()) == 0 || errno != EBUSY) return;
    static_cast<void>(put(cgroup + "/cgroup.kill", "1"));
    std::this_thread::sleep_for(kBetweenRemovals);
  }
}

std::string how_to_delegate(const std::string& cgroup) {
  return fmt::format(
      "{} is not delegated to user {}: start the job in a cgroup that is, as by systemd-run --user --scope -p "
      "Delegate=yes, or leave out cgroup=task",
      cgroup, ::getuid());
}

}  // namespace

Result<std::unique_ptr<TaskCgroups>> TaskCgroups::make(pid_t shell, const std::string& name,
                                                       const std::string& controller, const std::string& root) {
  auto cgroups = TRY(task::Cgroups::of_process(shell, root));
  auto parent = cgroups.unified_directory();
  if (!parent)
    return Error{
        ENOENT,
        "cgroup=task: the shell is in no cgroup of version 2 that is mounted here: mount cgroup2, as systemd "
        "does, or leave the option out"};
  while (parent->ends_with('/')) parent->pop_back();  // the root
  std::string own = fmt::format("{}/nacre-{}", *parent, name);
  bool is_there = ::access((*parent + "/cgroup.procs").c_str(), W_OK) == 0;
  if (!is_there || (::mkdir(own.c_str(), kCgroupMode) < 0 && errno != EEXIST)) {
    int why = errno;
    return Error{why,
                 fmt::format("cgroup=task: {}: {}", system_error(why, *parent).message, how_to_delegate(*parent))};
  }
  std::unique_ptr<TaskCgroups> out(new TaskCgroups(shell, *std::move(parent), std::move(own), controller));
  if (Result<void> enabled = out->enable(); !enabled) out->without_ = enabled.error().message;
  return out;
}

// The kernel lets a cgroup other than the root give controllers to cgroups below only if it has no process itself.
Result<void> TaskCgroups::enable() {
  if (!has_word(parent_ + "/cgroup.controllers", controller_))
    return Error{ENOTSUP, fmt::format("{} has no controller {}", parent_, controller_)};
  std::string give = "+" + controller_;
  std::string control = "/cgroup.subtree_control";
  if (!has_word(parent_ + control, controller_)) {
    int failed = put(parent_ + control, give);
    if (failed == EBUSY) {
      CHECK_OK(make_room(parent_));
      failed = put(parent_ + control, give);
    }
    if (failed != 0) return system_error(failed, parent_ + control);
    has_enabled_ = true;
  }
  if (int failed = put(own_ + control, give); failed != 0) return system_error(failed, own_ + control);
  return {};
}

// Moves the shell and its children into a cgroup below, if no other process is in theirs.
Result<void> TaskCgroups::make_room(const std::string& in_use) {
  std::vector<pid_t> processes = processes_in(in_use);
  for (pid_t pid : processes) {
    auto stat = ProcessStat::of(pid);
    if (pid != shell_ && stat && stat->parent != shell_)
      return Error{EBUSY, fmt::format("{} has processes of others, such as {} ({})", in_use, pid, stat->name)};
  }
  std::string shell = own_ + "/shell";
  if (::mkdir(shell.c_str(), kCgroupMode) < 0 && errno != EEXIST) return system_error(errno, shell);
  has_moved_ = true;
  for (pid_t pid : processes) {
    int failed = put(shell + "/cgroup.procs", std::to_string(pid));
    if (failed != 0 && failed != ESRCH) return system_error(failed, shell);
  }
  return {};
}

TaskCgroups::~TaskCgroups() {
  for (const std::string& each : left_) remove_now(each);
  if (has_enabled_) {
    static_cast<void>(put(own_ + "/cgroup.subtree_control", "-" + controller_));
    static_cast<void>(put(parent_ + "/cgroup.subtree_control", "-" + controller_));
  }
  if (has_moved_) {
    std::string shell = own_ + "/shell";
    for (pid_t pid : processes_in(shell)) static_cast<void>(put(parent_ + "/cgroup.procs", std::to_string(pid)));
    ::rmdir(shell.c_str());
  }
  ::rmdir(own_.c_str());
}

std::string TaskCgroups::directory_of(std::uint32_t rank, std::uint32_t attempt) const {
  return fmt::format("{}/task-{}.{}", own_, rank, attempt);
}

Result<void> TaskCgroups::enter(std::uint32_t rank, std::uint32_t attempt) const {
  std::string directory = directory_of(rank, attempt);
  if (::mkdir(directory.c_str(), kCgroupMode) < 0 && errno != EEXIST) return system_error(errno, directory);
  if (int failed = put(directory + "/cgroup.procs", "0"); failed != 0)
    return system_error(failed, directory + "/cgroup.procs");
  return {};
}

std::optional<TaskCgroups::Used> TaskCgroups::take(std::uint32_t rank, std::uint32_t attempt) {
  std::string directory = directory_of(rank, attempt);
  std::string cpu = directory + "/cpu.stat";
  auto user = task::read_keyed_number(cpu, "user_usec ");
  auto system = task::read_keyed_number(cpu, "system_usec ");
  if (!user || !system) return std::nullopt;
  constexpr double kMicrosecond = 1e-6;
  Used out;
  out.user = static_cast<double>(*user) * kMicrosecond;
  out.system = static_cast<double>(*system) * kMicrosecond;
  if (auto peak = task::read_number(directory + "/memory.peak")) out.memory_peak = *peak;
  if (auto kills = task::read_keyed_number(directory + "/memory.events", "oom_kill ")) out.oom_kills = *kills;
  if (::rmdir(directory.c_str()) < 0) left_.push_back(std::move(directory));
  return out;
}

GpuMeter::GpuMeter(plugin::Host& host, GpuWatch::Complain complain) : host_(host) {
  watch_.emplace(host, std::move(complain));
}

Result<void> GpuMeter::started(const task::Task& task) {
  if (!watch_ || !watch_->has_tools()) return {};
  running_[task.rank()] = {};
  if (std::exchange(is_due_, true)) return {};
  if (!timer_) {
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
    timer_->unref();
  }
  timer_->start(kFirstLook);
  return {};
}

void GpuMeter::look() {
  is_due_ = watch_ && !running_.empty();
  if (is_due_) watch_->look([this](const usage::GpuLook& look) { take(look); });
}

void GpuMeter::take(const usage::GpuLook& look) {
  last_ = gpus_of_tasks(host_, look);
  devices_.add(look);
  for (auto& [rank, tally] : running_) {
    auto found = last_.find(rank);
    if (found != last_.end())
      tally.add(found->second);
    else if (look.is_complete)
      tally.add({0, std::nullopt});
  }
  timer_->start(kPeriod);
}

std::optional<usage::TaskGpu> GpuMeter::exited(const task::Task& task) {
  last_.erase(task.rank());
  auto found = running_.extract(task.rank());
  return found ? found.mapped().taken() : std::nullopt;
}

Json GpuMeter::now() const {
  Json notes = Json::array();
  if (watch_) {
    for (const std::string& each : watch_->notes()) notes.push_back(each);
  }
  return {{"tasks", wire_of_gpus(last_)}, {"notes", std::move(notes)}};
}

void GpuMeter::stop() {
  watch_.reset();
  timer_.reset();
}

namespace {

constexpr wire::Each kTaskGpus{wire::Array{[](auto& io, auto& m) {
  io.are("rank, memory and use");
  io.has(m.first);
  io.has(m.second.memory, wire::Between{0, usage::kMostOnWire});
  io.has(m.second.device_use);
}}};

}  // namespace

Json wire_of_gpus(const std::map<std::uint32_t, usage::TaskGpu>& tasks) { return kTaskGpus.write(tasks); }

Result<std::map<std::uint32_t, usage::TaskGpu>> gpus_from(const Json& wire) {
  std::map<std::uint32_t, usage::TaskGpu> out;
  CHECK_OK(kTaskGpus.read(JsonAt::root(wire), out));
  return out;
}

// ---- gpu watch --------------------------------------------------------------------------

namespace {

constexpr const char* kCsv = "--format=csv,noheader,nounits";
constexpr const char* kNoGpuTool =
    "neither nvidia-smi nor rocm-smi is in the shell's PATH: what tasks use of GPUs is not known; put one there";
constexpr int kMostGpuDepth = 1024;  // of processes: process ids are reused, so the way up is limited

}  // namespace

GpuWatch::GpuWatch(plugin::Host& host, Complain complain, event::Seconds most_time)
    : host_(host), complain_(std::move(complain)), most_time_(most_time), run_(host.loop(), host.children()) {
  using usage::GpuLook;
  const std::vector<Tool> known{
      {"nvidia-smi",
       {{{"nvidia-smi", "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total", kCsv},
         &GpuLook::add_nvidia_devices},
        {{"nvidia-smi", "--query-compute-apps=pid,gpu_uuid,used_memory", kCsv}, &GpuLook::add_nvidia_processes}}},
      {"rocm-smi",
       {{{"rocm-smi", "--showuse", "--showmeminfo", "vram", "--showpids", "--json"}, &GpuLook::add_rocm}}}};
  std::copy_if(known.begin(), known.end(), std::back_inserter(tools_),
               [](const Tool& each) { return is_in_path(each.name); });
  if (tools_.empty() && complain_) complain_(kNoGpuTool);
}

void GpuWatch::look(Done done) {
  waiting_.push_back(std::move(done));
  if (waiting_.size() > 1) return;
  look_ = {};
  look_.is_complete = has_tools() && std::none_of(tools_.begin(), tools_.end(),
                                                  [](const Tool& each) { return each.is_given_up(); });
  tool_ = step_ = 0;
  next();
}

void GpuWatch::next() {
  while (tool_ < tools_.size()) {
    Tool& tool = tools_[tool_];
    bool is_done = step_ == tool.steps.size();
    if (is_done || tool.is_given_up()) {
      if (is_done) {
        tool.failures = 0;
        tool.why.clear();
      }
      ++tool_;
      step_ = 0;
      continue;
    }
    task::CommandRun::What what{tool.name, tool.steps[step_].argv};
    what.most = most_time_;
    what.is_told_by_output = true;
    what.ends_with_shell = true;
    Result<void> started =
        run_.start(std::move(what), [this](const Result<std::string>& printed) { take(printed); });
    if (started) return await_end();
    fail(tool, started.error().message);
  }
  finish();
}

// A process that waits in the kernel cannot be killed, and one that has left its process group is not killed: the
// look goes on once it has ended.
void GpuWatch::await_end() {
  if (!end_) {
    auto timer = event::Timer::create(host_.loop(), [this] {
      note(tools_[tool_], fmt::format("{}: SIGKILL has not ended it", tools_[tool_].name));
    });
    if (!timer) return;
    end_ = *std::move(timer);
    end_->unref();
  }
  end_->start_grace(most_time_ + kMostAfterKill);
}

void GpuWatch::take(const Result<std::string>& printed) {
  if (end_) end_->stop();
  Tool& tool = tools_[tool_];
  Result<void> read;
  if (printed) read = (look_.*tool.steps[step_].read)(*printed);
  if (!printed)
    fail(tool, printed.error().message);
  else if (!read)
    fail(tool, fmt::format("{}: {}", tool.name, read.error().message));
  else
    ++step_;
  next();
}

void GpuWatch::fail(Tool& tool, const std::string& why) {
  ++tool.failures;
  look_.is_complete = false;
  ++tool_;
  step_ = 0;
  note(tool, why);
}

void GpuWatch::note(Tool& tool, const std::string& why) {
  tool.why = fmt::format("{}: what tasks use of its GPUs is not known; run it there by hand", why);
  if (!std::exchange(tool.has_complained, true) && complain_) complain_(tool.why);
}

void GpuWatch::finish() {
  for (Done& each : std::exchange(waiting_, {})) each(look_);
}

std::set<std::string> GpuWatch::notes() const {
  if (!has_tools()) return {kNoGpuTool};
  std::set<std::string> out;
  for (const Tool& each : tools_) {
    if (!each.why.empty()) out.insert(each.why);
  }
  return out;
}

std::map<std::uint32_t, usage::TaskGpu> gpus_of_tasks(plugin::Host& host, const usage::GpuLook& look) {
  std::map<std::int64_t, std::uint32_t> ranks;  // by process
  for (const auto& task : host.tasks()) {
    if (task->state() == task::State::running) ranks.emplace(task->pid(), task->rank());
  }
  return gpus_by_rank(look, [&](std::int64_t pid) -> std::optional<std::uint32_t> {
    for (int depth = 0; depth < kMostGpuDepth && pid > 1; ++depth) {
      if (auto found = ranks.find(pid); found != ranks.end()) return found->second;
      auto process = ProcessStat::of(static_cast<pid_t>(pid));
      if (!process) break;
      pid = process->parent;
    }
    return std::nullopt;
  });
}

namespace {

constexpr std::size_t kMostIoText = 4096;  // bytes of /proc/PID/io
constexpr unsigned kKibibyte = 10;

// The most resident memory that this process has had, in bytes: until its execve(2) a child is a copy of it, or
// shares it.
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

// getrusage(2) includes what this process was before its own execve(2), of which tasks are no copies. So its value
// only shows whether the kernel's exact one has to be read again.
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
