// SPDX-License-Identifier: Apache-2.0
#include "plugins/health/checks.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "job/environment.hpp"

namespace nacre::plugins {
namespace {

constexpr int kCheckNotExecuted = 126;

// Runs in the child, with all signals blocked.
[[noreturn]] void run_check(const std::function<int()>& act, int output, pid_t shell) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shell) ::_exit(kCheckNotExecuted);
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  close_from(STDERR_FILENO + 1);
  for (int signum = 1; signum < NSIG; ++signum) std::signal(signum, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::_exit(act());
}

}  // namespace

std::string CheckProcess::Outcome::why(event::Seconds most) const {
  if (is_late) return "took longer than " + value::Duration::of_seconds(most.count()).str();
  std::string line = exits::last_line_of(output);
  return line.empty() ? status.str() : line;
}

Result<void> CheckProcess::start(const std::function<int()>& act, event::Seconds most, WhenDone done) {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  output_ = std::move(pipe.read);
  limit_ = TRY(event::Timer::create(host_.loop(), [this] { end(true, {}); }));
  poll_ = TRY(event::Poll::create(host_.loop(), output_.get(), [this](int) { read(); }));
  CHECK_OK(poll_->start(event::Poll::kReadable));
  const pid_t shell = ::getpid();
  {
    SignalsBlocked blocked;
    pid_ = ::fork();
    if (pid_ == 0) run_check(act, pipe.write.get(), shell);
  }
  if (pid_ < 0) return system_error(errno, "cannot start a process");
  done_ = std::move(done);
  began_ = event::clock_now();
  host_.children().watch(pid_, [this](const event::ChildExit& exit) {
    pid_ = -1;
    end(false, value::WaitStatus::of_raw(exit.status));
  });
  limit_->start_grace(most);
  return {};
}

// Does not wait for processes of its own that hold the pipe open.
void CheckProcess::read() {
  char some[4096];
  for (;;) {
    const ssize_t size = ::read(output_.get(), some, sizeof some);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0) poll_->stop();
    if (size <= 0) return;
    outcome_.output.append(some, static_cast<std::size_t>(size));
    if (outcome_.output.size() > kMostOutput) outcome_.output.erase(0, outcome_.output.size() - kMostOutput);
  }
}

// A process that waits in the kernel does not end, and nobody waits for it.
void CheckProcess::kill() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  host_.children().leave_alone(pid_);
  host_.children().forget(pid_);
  pid_ = -1;
}

void CheckProcess::end(bool is_late, const value::WaitStatus& status) {
  read();
  kill();
  outcome_.is_late = is_late;
  outcome_.status = status;
  outcome_.took = event::clock_now() - began_;
  limit_->stop();
  poll_->stop();
  done_(outcome_);
}

std::function<int()> shell_command(std::string command, std::string directory,
                                   std::vector<std::string> environment) {
  return [command = std::move(command), directory = std::move(directory), environment = std::move(environment)] {
    std::vector<const char*> variables;
    for (const std::string& each : environment) variables.push_back(each.c_str());
    variables.push_back(nullptr);
    const char* here[] = {"/bin/sh", "-c", command.c_str(), "health", nullptr};
    const char* there[] = {
        "/bin/sh",       "-c",   R"(cd -- "$1" && exec /bin/sh -c "$2" health)", "health", directory.c_str(),
        command.c_str(), nullptr};
    const char** argv = directory.empty() ? here : there;
    ::execve(argv[0], const_cast<char**>(argv), const_cast<char**>(variables.data()));  // NOLINT
    return kCheckNotExecuted;
  };
}

namespace {

// Printed before the output of each call.
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
  if (own.size() < wanted.size()) return out;  // the tools have other numbers
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
  // system processor (119, 120). Others are mostly caused by programs.
  constexpr std::uint64_t kHardware[] = {48, 62, 64, 74, 79, 92, 95, 119, 120};
  // The stamps are of a clock that nothing corrects: in a year it may be an hour behind the others.
  constexpr std::uint64_t kRecent = std::uint64_t{600} * 1'000'000, kDrift = 10'000;
  const std::size_t text = record.find(';');
  const auto fields = split(record.substr(0, text), ',');
  if (text == std::string_view::npos || fields.size() < 3) return "";
  auto time = parse_u64(fields[2]);
  std::string_view message = record.substr(text + 1);
  message = message.substr(0, message.find('\n'));
  const std::size_t xid = message.find("NVRM: Xid (");
  if (!time || *time + kRecent + now / kDrift < now || xid == std::string_view::npos) return "";
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

// ---- option -----------------------------------------------------------------------------

namespace {

constexpr const char* kHealth = "health";

Result<HealthOption::Depth> health_depth(const JsonAt& option) {
  if (option.json() == "quick") return HealthOption::Depth::quick;
  if (option.json() == "pairs") return HealthOption::Depth::pairs;
  auto on = job::switch_of(option);
  if (!on) return option.expected("off, quick or pairs");
  return *on ? HealthOption::Depth::quick : HealthOption::Depth::off;
}

Result<event::Seconds> check_time(const JsonAt& option) {
  value::Duration time = TRY(job::seconds_option(option));
  if (time.is_infinite() || time.seconds() <= 0) return option.expected("a time above 0, such as 5s");
  return event::Seconds(time.seconds());
}

// The command line turns "true" and "false" into JSON, but they are commands.
Result<std::string> check_command(const JsonAt& option) {
  if (option.json().is_boolean()) return std::string(option.json().get<bool>() ? "true" : "false");
  std::string out = TRY(option.string());
  if (trim(out).empty()) return option.expected("a command");
  return out;
}

}  // namespace

Result<void> HealthOption::check_pairs(const JsonAt& option) const {
  if (depth == Depth::pairs && pair_command.empty())
    return option.error(
        "with pairs there has to be a command that pairs of hosts run: give -o health.pair-command=CMD");
  if (depth == Depth::quick && !pair_command.empty())
    return option.error("with quick no pair-command is run: give --health=pairs, or leave out pair-command");
  return {};
}

Result<HealthOption> HealthOption::read(const job::Options& options) {
  HealthOption out;
  auto option = options.at(kHealth);
  if (!option) return out;
  out.depth = Depth::quick;
  if (!option->json().is_object()) {
    out.depth = TRY(health_depth(*option));
    CHECK_OK(out.check_pairs(*option));
    return out;
  }
  CHECK_OK(option->only_keys({"checks", "command", "pair-command", "timeout", "wait", "on-bad"}));
  if (auto command = TRY(option->find("pair-command"))) {
    out.pair_command = TRY(check_command(*command));
    out.depth = Depth::pairs;
  }
  if (auto checks = TRY(option->find("checks"))) out.depth = TRY(health_depth(*checks));
  CHECK_OK(out.check_pairs(*option));
  if (auto command = TRY(option->find("command"))) out.command = TRY(check_command(*command));
  if (auto timeout = TRY(option->find("timeout"))) out.timeout = TRY(check_time(*timeout));
  if (auto wait = TRY(option->find("wait"))) out.wait = TRY(check_time(*wait));
  if (auto on_bad = TRY(option->find("on-bad"))) {
    const std::string what = TRY(on_bad->string());
    if (what != "end" && what != "warn") return on_bad->expected("end or warn");
    out.ends = what == "end";
  }
  return out;
}

// ---- judgement --------------------------------------------------------------------------

value::Idset HealthVerdict::shells() const {
  value::Idset out;
  for (const BadHost& each : bad) out.insert(each.shell);
  return out;
}

Judged judge(const std::map<std::uint32_t, HostCheck>& hosts, const ClockWindow& window) {
  Judged out;
  const bool all_fail =
      std::all_of(hosts.begin(), hosts.end(), [](const auto& each) { return !each.second.directory.empty(); });
  for (const auto& [shell, host] : hosts) {
    if (host.bad)
      out.verdict.bad.push_back({shell, *host.bad});
    else if (!host.directory.empty() && !all_fail)
      out.verdict.bad.push_back({shell, {"disk", host.directory}});
    const double ahead = host.clock - window.to, behind = window.from - host.clock;
    const double most = std::max(ahead, behind);
    if (host.clock > 0 && most > kMostClockDifference)
      out.notes[shell] =
          fmt::format("its clock is {:.1f} s {} that of shell 0", most, ahead > behind ? "ahead of" : "behind");
  }
  if (all_fail && !hosts.empty()) {
    const auto& [shell, first] = *hosts.begin();
    if (!first.bad) out.notes[shell] = first.directory + ": so it is on all hosts";
  }
  return out;
}

// ---- this host --------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kLeastFree = std::uint64_t{16} << 20;  // bytes that a file system has to have left
constexpr double kLeastAvailable = 0.02;                       // of all memory, that has to be available

std::optional<std::uint64_t> meminfo_kibibytes(std::string_view meminfo, std::string_view name) {
  for (std::string_view line : split(meminfo, '\n')) {
    if (!line.starts_with(name)) continue;
    std::string_view number = trim(line.substr(name.size()));
    return parse_u64(number.substr(0, number.find(' ')));
  }
  return std::nullopt;
}

std::string directory_error(const std::string& path, int error) { return system_error(error, path).message; }

}  // namespace

std::string fault_of_directory(const std::string& path) {
  UniqueFd fd = open_nameless(path);
  if (!fd) return directory_error(path, errno);
  const std::string some(4096, 'x');
  if (int error = write_all(fd.get(), some); error != 0) return directory_error(path, error);
  struct statvfs space {};
  const bool is_known = ::fstatvfs(fd.get(), &space) == 0;
  if (::close(fd.release()) < 0) return directory_error(path, errno);  // on NFS, what was written may have no room
  if (!is_known) return "";
  const std::uint64_t room = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (room < kLeastFree) return fmt::format("{}: {} MiB are free, {} expected", path, room >> 20, kLeastFree >> 20);
  if (space.f_files > 0 && space.f_favail == 0) return path + ": there is no room for another file";
  return "";
}

std::string fault_of_memory(std::string_view meminfo) {
  auto all = meminfo_kibibytes(meminfo, "MemTotal:");
  auto available = meminfo_kibibytes(meminfo, "MemAvailable:");
  if (!all || !available) return "";
  if (static_cast<double>(*available) >= static_cast<double>(*all) * kLeastAvailable) return "";
  return fmt::format("{} MiB of {} MiB are available, {:g} % expected", *available >> 10, *all >> 10,
                     kLeastAvailable * 100);
}

void HostChecks::start(const Places& places, std::optional<HostFault> known, WhenDone done) {
  running_.clear();
  gpus_.reset();
  found_ = {};
  found_.bad = std::move(known);
  done_ = std::move(done);
  left_ = 1;
  auto meminfo = read_file("/proc/meminfo");
  std::string memory = meminfo ? fault_of_memory(*meminfo) : "";
  if (!memory.empty() && !found_.bad) found_.bad = HostFault{"memory", std::move(memory)};
  auto directory = [](const std::string& path) {
    return [path] {
      const std::string fault = fault_of_directory(path);
      static_cast<void>(write_all(STDOUT_FILENO, fault));
      return fault.empty() ? 0 : 1;
    };
  };
  running_.reserve(5);
  add("disk", [directory, path = places.temporary] {  // a missing one is made, or /tmp is used instead
    return directory(::access(path.c_str(), F_OK) == 0 || errno != ENOENT ? path : kUsualTemporary)();
  });
  if (!places.work.empty() && places.work != places.temporary) add("disk", directory(places.work), true);
  if (!host_.job().node().gpus.empty()) add_gpus();
  if (option_.command) add("command", command(host_, *option_.command, places));
  --left_;
  done_if_all();
}

std::function<int()> HostChecks::command(plugin::Host& host, const std::string& text, const Places& places) {
  std::vector<std::string> variables = places.variables;
  for (const auto& [name, value] : host.environment().all()) variables.push_back(fmt::format("{}={}", name, value));
  return shell_command(text, places.work, std::move(variables));
}

void HostChecks::add(std::string check, const std::function<int()>& act, bool is_work) {
  const std::size_t place = running_.size();
  running_.push_back({std::move(check), std::make_unique<CheckProcess>(host_)});
  ++left_;
  Result<void> started = running_[place].process->start(
      act, option_.timeout, [this, place, is_work](const auto& outcome) { ended(place, outcome, is_work); });
  if (started) return;
  running_[place].found = HostFault{running_[place].check, started.error().message};
  --left_;
}

void HostChecks::add_gpus() {
  add("gpus", [] {
    const std::string fault = fault_of_kernel_log();
    static_cast<void>(write_all(STDOUT_FILENO, fault));
    return fault.empty() ? 0 : 1;
  });
  if (!GpuCheck::has_tool()) return;
  const std::size_t place = running_.size();
  running_.push_back({"gpus", nullptr});
  ++left_;
  gpus_ = std::make_unique<GpuCheck>(host_, GpuCheck::Limits{option_.timeout, option_.wait});
  Result<void> started = gpus_->start([this, place](const std::string& fault) {
    if (!fault.empty()) running_[place].found = HostFault{"gpus", fault};
    --left_;
    done_if_all();
  });
  if (started) return;
  running_[place].found = HostFault{"gpus", started.error().message};
  --left_;
}

void HostChecks::ended(std::size_t place, const CheckProcess::Outcome& outcome, bool is_work) {
  Running& running = running_[place];
  std::string why = outcome.is_good() ? "" : outcome.why(option_.timeout);
  if (is_work && !outcome.is_late)
    found_.directory = std::move(why);
  else if (!why.empty())
    running.found = HostFault{running.check, std::move(why)};
  --left_;
  done_if_all();
}

void HostChecks::done_if_all() {
  if (left_ > 0 || !done_) return;
  for (const Running& each : running_) {
    if (each.found && !found_.bad) found_.bad = each.found;
  }
  std::exchange(done_, nullptr)(found_);
}

}  // namespace nacre::plugins
