// SPDX-License-Identifier: Apache-2.0
#include "plugins/health/gpu_check.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "event/clock.hpp"
#include "job/environment.hpp"
#include "value/duration.hpp"

namespace nacre::plugins {
namespace {

// Before what each call prints.
constexpr std::string_view kGpuDevices = "=devices", kGpuErrors = "=errors", kGpuProcesses = "=processes",
                           kGpuRocm = "=rocm";
constexpr std::string_view kGpuCsv = " --format=csv,noheader,nounits";
constexpr int kMostAncestors = 1024;

// "INDEX, ERRORS" each; "[N/A]" of a device that does not count them.
Result<void> add_errors(std::string_view text, std::map<std::uint32_t, std::uint64_t>& errors) {
  for (std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) continue;
    const std::size_t comma = line.find(',');
    auto index = parse_u64(trim(line.substr(0, comma)));
    if (!index || comma == std::string_view::npos)
      return invalid(fmt::format("expected INDEX, ERRORS of a GPU, got {}", in_quotes(line)));
    if (auto count = parse_u64(trim(line.substr(comma + 1)))) errors[static_cast<std::uint32_t>(*index)] = *count;
  }
  return {};
}

bool is_of_this_shell(std::int64_t pid) {
  for (int depth = 0; depth < kMostAncestors && pid > 1; ++depth) {
    if (pid == ::getpid()) return true;
    auto process = ProcessStat::of(static_cast<pid_t>(pid));
    if (!process) return false;
    pid = process->parent;
  }
  return false;
}

std::string who_uses(const usage::GpuProcess& process, const std::string& gpu) {
  std::string out = fmt::format("GPU {} is used by process {}", gpu, process.pid);
  return process.memory ? fmt::format("{}, which has {} MiB", out, *process.memory >> 20) : out;
}

}  // namespace

std::string gpu_command(bool nvidia, bool rocm) {
  std::string out = "export LC_ALL=C; ";
  auto call = [&out, first = true](std::string_view heading, std::string_view command) mutable {
    out += fmt::format("{}echo && echo {} && {}", std::exchange(first, false) ? "" : " && ", heading, command);
  };
  if (nvidia) {
    call(kGpuDevices,
         fmt::format("nvidia-smi --query-gpu=index,uuid,utilization.gpu,memory.used,memory.total{}", kGpuCsv));
    call(kGpuErrors, fmt::format("nvidia-smi --query-gpu=index,ecc.errors.uncorrected.volatile.total{}", kGpuCsv));
    call(kGpuProcesses, fmt::format("nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory{}", kGpuCsv));
  }
  if (rocm) call(kGpuRocm, "rocm-smi --showuse --showmeminfo vram --showpids --json");
  return out;
}

Result<GpuState> GpuState::parse(std::string_view text) {
  GpuState out;
  std::map<std::string_view, std::string> parts;
  std::string* part = nullptr;
  for (std::string_view line : split(text, '\n')) {
    if (line == kGpuDevices || line == kGpuErrors || line == kGpuProcesses || line == kGpuRocm)
      part = &parts[line];
    else if (part != nullptr && !trim(line).empty())
      part->append(line).push_back('\n');
  }
  if (parts.contains(kGpuDevices)) CHECK_OK(out.look.add_nvidia_devices(parts[kGpuDevices]));
  if (parts.contains(kGpuErrors)) CHECK_OK(add_errors(parts[kGpuErrors], out.errors));
  if (parts.contains(kGpuProcesses)) CHECK_OK(out.look.add_nvidia_processes(parts[kGpuProcesses]));
  if (parts.contains(kGpuRocm)) CHECK_OK(out.look.add_rocm(parts[kGpuRocm]));
  return out;
}

GpuJudgement judge_gpus(const GpuState& state, const value::Idset& wanted,
                        const std::function<bool(std::int64_t pid)>& is_own) {
  GpuJudgement out;
  const auto& devices = state.look.devices;
  if (devices.size() < wanted.size()) {
    out.fault =
        fmt::format("{} of {} GPUs {} there", devices.size(), wanted.size(), devices.size() == 1 ? "is" : "are");
    return out;
  }
  std::vector<const usage::GpuDevice*> own;
  for (const usage::GpuDevice& each : devices) {
    if (wanted.contains(each.index)) own.push_back(&each);
  }
  if (own.size() < wanted.size()) return out;  // their numbers are others
  for (const usage::GpuDevice* each : own) {
    auto errors = state.errors.find(each->index);
    if (each->vendor != "nvidia" || errors == state.errors.end() || errors->second == 0) continue;
    out.fault = fmt::format("GPU {} has had {} memory error{} that cannot be corrected", each->index,
                            errors->second, errors->second == 1 ? "" : "s");
    return out;
  }
  for (const usage::GpuProcess& process : state.look.processes) {
    for (const usage::GpuDevice* each : own) {
      const auto& used = process.devices;
      if (std::find(used.begin(), used.end(), each->id) == used.end() || is_own(process.pid)) continue;
      out.in_use = who_uses(process, std::to_string(each->index));
      return out;
    }
  }
  return out;
}

// ---- kernel log -------------------------------------------------------------------------

std::string fault_of_kernel_record(std::string_view record, std::uint64_t now) {
  // Of NVIDIA's "XID Errors": memory (48, 64, 92, 95), NVLink (74), a device that is gone or halted (62, 79), its
  // system processor (119, 120). Others are mostly a program's.
  constexpr std::uint64_t kHardware[] = {48, 62, 64, 74, 79, 92, 95, 119, 120};
  constexpr std::uint64_t kRecent = std::uint64_t{600} * 1'000'000;
  const std::size_t text = record.find(';');
  const auto fields = split(record.substr(0, text), ',');
  if (text == std::string_view::npos || fields.size() < 3) return "";
  auto time = parse_u64(fields[2]);
  std::string_view message = record.substr(text + 1);
  message = message.substr(0, message.find('\n'));
  const std::size_t xid = message.find("NVRM: Xid (");
  if (!time || *time + kRecent < now || xid == std::string_view::npos) return "";
  std::size_t colon = message.find("): ", xid);
  if (colon == std::string_view::npos) return "";
  std::string_view number = message.substr(colon + 3);
  auto found = parse_u64(number.substr(0, number.find_first_not_of("0123456789")));
  if (!found || std::find(std::begin(kHardware), std::end(kHardware), *found) == std::end(kHardware)) return "";
  return fmt::format("the kernel has logged {}", escape_controls(message.substr(xid)));
}

std::string fault_of_kernel_log() {
  UniqueFd log(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  timespec boot{};
  if (!log || ::clock_gettime(CLOCK_MONOTONIC, &boot) < 0) return "";
  const std::uint64_t now = static_cast<std::uint64_t>(boot.tv_sec) * 1'000'000;
  std::string last;
  char record[8192];
  for (;;) {
    const ssize_t size = ::read(log.get(), record, sizeof record);
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;  // records were overwritten meanwhile
    if (size <= 0) return last;
    std::string fault = fault_of_kernel_record({record, static_cast<std::size_t>(size)}, now);
    if (!fault.empty()) last = std::move(fault);
  }
}

// ---- gpu check --------------------------------------------------------------------------

bool GpuCheck::has_tool() { return is_in_path("nvidia-smi") || is_in_path("rocm-smi"); }

Result<void> GpuCheck::start(WhenDone done) {
  again_ = TRY(event::Timer::create(host_.loop(), [this] {
    if (Result<void> started = look(); !started) end(started.error().message);
  }));
  until_ = event::clock_now() + limits_.wait;
  CHECK_OK(look());
  done_ = std::move(done);
  return {};
}

Result<void> GpuCheck::look() {
  std::vector<std::string> variables;
  const job::Environment own = job::Environment::own();
  for (const auto& [name, value] : own.all()) variables.push_back(fmt::format("{}={}", name, value));
  process_ = std::make_unique<CheckProcess>(host_);
  const std::string command = gpu_command(is_in_path("nvidia-smi"), is_in_path("rocm-smi"));
  return process_->start(shell_command(command, "", std::move(variables)), limits_.look,
                         [this](const CheckProcess::Outcome& outcome) { looked(outcome); });
}

void GpuCheck::looked(const CheckProcess::Outcome& outcome) {
  if (!outcome.is_good()) return end(outcome.why(limits_.look));
  auto state = GpuState::parse(outcome.output);
  if (!state) return end(state.error().message);
  const GpuJudgement found = judge_gpus(*state, host_.job().node().gpus, is_of_this_shell);
  if (!found.fault.empty() || found.in_use.empty()) return end(found.fault);
  if (event::clock_now() < until_) return again_->start(kAgain);
  end(fmt::format("{}, and has been for {}", found.in_use,
                  value::Duration::of_seconds(limits_.wait.count()).str()));
}

void GpuCheck::end(const std::string& fault) { std::exchange(done_, nullptr)(fault); }

}  // namespace nacre::plugins
