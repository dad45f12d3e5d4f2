// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/gpu_meter.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "usage/measure.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {

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
constexpr int kMostGpuDepth = 1024;  // of processes: their numbers are used again, so the way up is bounded

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

// One that waits in the kernel cannot be killed, and one that has left its process group is not: the look goes on
// once it has ended.
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

}  // namespace nacre::plugins
