// SPDX-License-Identifier: Apache-2.0
//
// sysmon: how much memory and cpu time the job uses on this node, see sysmon.hpp. After the last task it logs
// the peak of memory, and how many cpus were busy on average. Samples of both are logged at the level trace, the
// first ones soon, then one every `sysmon.period` (2 s by default).
//
// If the kernel does not keep the peak, it is the largest sample, but at least each single task's peak.
#include "plugins/sysmon/sysmon.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "job/options.hpp"

namespace nacre::plugins {
namespace {

namespace fs = std::filesystem;

// Seconds, from cpu.stat (version 2) or cpuacct.usage.
Result<double> read_cpu(const std::string& path) {
  if (path.ends_with("cpu.stat"))
    return static_cast<double>(TRY(task::read_keyed_number(path, "usage_usec "))) / 1e6;
  return static_cast<double>(TRY(task::read_number(path))) / 1e9;
}

bool readable(const std::string& path) { return task::read_number(path).has_value(); }

}  // namespace

JobUsage JobUsage::of_shell(pid_t shell, const std::string& root) {
  JobUsage usage(shell, root);
  if (auto cgroups = task::Cgroups::of_process(shell, root)) {
    usage.find_memory(*cgroups);
    usage.find_cpu(*cgroups);
  }
  return usage;
}

void JobUsage::find_memory(const task::Cgroups& cgroups) {
  bool old = cgroups.has("memory");
  std::string directory = own_cgroup(cgroups, "memory");
  if (directory.empty()) return;
  std::string current = directory + (old ? "/memory.usage_in_bytes" : "/memory.current");
  std::string peak = directory + (old ? "/memory.max_usage_in_bytes" : "/memory.peak");
  if (!readable(current)) return;
  memory_file_ = std::move(current);
  if (readable(peak)) peak_file_ = std::move(peak);
}

void JobUsage::find_cpu(const task::Cgroups& cgroups) {
  bool old = cgroups.has("cpuacct");
  std::string directory = own_cgroup(cgroups, "cpuacct");
  if (directory.empty()) return;
  std::string file = directory + (old ? "/cpuacct.usage" : "/cpu.stat");
  if (read_cpu(file)) cpu_file_ = std::move(file);
}

std::string JobUsage::own_cgroup(const task::Cgroups& cgroups, const std::string& controller) const {
  auto directory = cgroups.directory(controller);
  return directory && only_shell_in(*directory) ? *directory : "";
}

// There must be no cgroup below it, whose processes would count as well.
bool JobUsage::only_shell_in(const std::string& directory) const {
  Result<std::string> processes = read_file(directory + "/cgroup.procs");
  if (!processes || trim(*processes) != std::to_string(shell_)) return false;
  std::error_code error;
  for (fs::directory_iterator each(directory, error), end; !error && each != end; each.increment(error)) {
    if (each->is_directory(error)) return false;
  }
  return !error;
}

Result<JobUsage::Sample> JobUsage::sample(const std::vector<pid_t>& processes) const {
  std::uint64_t ticks = 0;
  std::uint64_t pages = 0;
  if (needs_processes()) {
    if (auto shell = ProcessStat::of(shell_, root_)) ticks += shell->children_ticks();
    for (pid_t pid : processes) {
      auto process = ProcessStat::of(pid, root_);
      if (!process) continue;
      ticks += process->own_ticks() + process->children_ticks();
      pages += process->pages;
    }
  }
  Sample out;
  auto ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto page_size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.cpu = static_cast<double>(ticks) / ticks_a_second;
  out.memory = pages * page_size;
  if (cpu_by_cgroup()) out.cpu = TRY(read_cpu(cpu_file_));
  if (memory_by_cgroup()) out.memory = TRY(task::read_number(memory_file_));
  if (!peak_file_.empty()) out.peak = TRY(task::read_number(peak_file_));
  return out;
}

namespace {

constexpr double kDefaultPeriod = 2;   // seconds
constexpr double kFirstPeriod = 0.03;  // seconds, for short jobs; each further period is ...
constexpr double kGrowth = 10;         // ... this many times as long, up to sysmon.period
constexpr double kLeastTime = 1e-3;    // seconds over which a mean is taken: the resolution of the loop's clock

// "512", "1.5K", "20.0G": bytes, with units of powers of 1024.
std::string size_text(std::uint64_t bytes) {
  constexpr std::string_view kSuffixes = "KMGTPE";
  constexpr double kPerUnit = 1024;
  if (bytes < 1024) return fmt::format("{}", bytes);
  double size = static_cast<double>(bytes) / kPerUnit;
  std::size_t unit = 0;
  for (; size >= kPerUnit && unit + 1 < kSuffixes.size(); ++unit) size /= kPerUnit;
  return fmt::format("{:.1f}{}", size, kSuffixes[unit]);
}

class Sysmon final : public plugin::Plugin {
 public:
  Sysmon(plugin::Host& host, pid_t shell, std::string root)
      : Plugin("sysmon"), host_(host), shell_(shell), root_(std::move(root)) {
    on("shell.init", [this] { return read(); });
    on("task.fork", [this] { return begin(); });
    on("task.exit", [this] { note_task(*host_.current_task()); });
    on("shell.finish", [this] { end(); });
  }

 private:
  struct Moment {
    double time = 0;  // seconds, as Loop::now()
    double cpu = 0;   // seconds
  };

  Result<void> read() {
    auto option = host_.options().at("sysmon");
    if (!option) return {};
    if (!option->json().is_object()) {
      if (!TRY(host_.options().flag("sysmon"))) return {};
    } else {
      CHECK_OK(option->only_keys({"period"}));
      if (auto period = TRY(option->find("period"))) {
        period_ = TRY(job::seconds_option(*period));
        if (period_.seconds() <= 0) return period->expected("a time that is not 0");
      }
    }
    usage_ = JobUsage::of_shell(shell_, root_);
    return {};
  }

  // Begins with the first task, so that what happened before does not count.
  Result<void> begin() {
    if (!usage_ || timer_) return {};
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { trace(); }));
    interval_ = std::min(kFirstPeriod, period_.seconds());
    timer_->start(event::Seconds(interval_));
    timer_->unref();
    if (auto sample = take()) first_ = last_ = {host_.loop().now(), sample->cpu};
    return {};
  }

  std::optional<JobUsage::Sample> take() {
    auto processes = usage_->needs_processes() ? event::Children::descendants() : std::vector<pid_t>();
    Result<JobUsage::Sample> sample = usage_->sample(processes);
    if (!sample) {
      log(host_, *this, Level::warn, "{}: nothing more will be measured", sample.error().message);
      stop();
      return std::nullopt;
    }
    by_kernel_ = sample->peak.has_value();
    peak_ = std::max(peak_, sample->peak.value_or(sample->memory));
    return *sample;
  }

  void trace() {
    auto sample = take();
    if (!sample) return;
    Moment now{host_.loop().now(), sample->cpu};
    log(host_, *this, Level::trace, "memory.current={}", size_text(sample->memory));
    log(host_, *this, Level::trace, "loadavg={:.2f}", mean(last_, now));
    last_ = now;
    interval_ = std::min(kGrowth * interval_, period_.seconds());
    timer_->start(event::Seconds(interval_));
  }

  // A process starts as a copy of its parent and is charged with the parent's memory (getrusage(2)), so a value is
  // useful only if it exceeds this process's own.
  void note_task(const task::Task& task) {
    rusage own{};
    if (!timer_ || by_kernel_ || ::getrusage(RUSAGE_SELF, &own) < 0) return;
    if (task.usage().ru_maxrss <= own.ru_maxrss) return;
    peak_ = std::max(peak_, static_cast<std::uint64_t>(task.usage().ru_maxrss) * 1024);
  }

  void end() {
    if (!timer_) return;
    auto sample = take();
    if (!sample) return;
    log(host_, *this, Level::notice, "memory.peak={} ({}{})", peak_ > 0 ? size_text(peak_) : "unknown",
        usage_->memory_by_cgroup() ? "cgroup" : "processes", by_kernel_ ? "" : ", sampled");
    log(host_, *this, Level::notice, "loadavg-overall={:.2f}", mean(first_, {host_.loop().now(), sample->cpu}));
    stop();
  }

  void stop() {
    usage_.reset();
    timer_.reset();
  }

  // How many cpus were busy. Not below 0: a process that has ended is missing until it is waited for.
  static double mean(const Moment& from, const Moment& to) {
    return std::max(0.0, to.cpu - from.cpu) / std::max(to.time - from.time, kLeastTime);
  }

  plugin::Host& host_;
  pid_t shell_;
  std::string root_;
  value::Duration period_ = value::Duration::of_seconds(kDefaultPeriod);
  std::optional<JobUsage> usage_;      // set while there is something to measure
  std::optional<event::Timer> timer_;  // runs from the first task's start to the last one's end
  double interval_ = 0;                // seconds until the next sample
  Moment first_;
  Moment last_;
  std::uint64_t peak_ = 0;  // bytes
  bool by_kernel_ = false;  // the kernel keeps the peak
};

}  // namespace

PluginPtr make_sysmon(plugin::Host& host) { return make_sysmon_of(host, ::getpid(), ""); }

PluginPtr make_sysmon_of(plugin::Host& host, pid_t shell, const std::string& root) {
  return std::make_unique<Sysmon>(host, shell, root);
}

}  // namespace nacre::plugins
