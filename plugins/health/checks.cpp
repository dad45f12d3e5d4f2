// SPDX-License-Identifier: Apache-2.0
#include "plugins/health/checks.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace nacre::plugins {

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

// The command line makes JSON of "true" and "false", which are commands.
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
constexpr double kLeastAvailable = 0.02;                       // of all, that has to be available

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
  const std::string file = fmt::format("{}/.nacre-health-{}", path, ::getpid());
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return directory_error(path, errno);
  ::unlink(file.c_str());
  const std::string some(4096, 'x');
  if (int error = write_all(fd.get(), some); error != 0) return directory_error(path, error);
  struct statvfs space {};
  const bool is_known = ::fstatvfs(fd.get(), &space) == 0;
  if (::close(fd.release()) < 0) return directory_error(path, errno);  // of NFS: what was written has no room
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
  add("disk", [directory, path = places.temporary] {  // one that is not there is made, or /tmp takes its place
    return directory(::access(path.c_str(), F_OK) == 0 || errno != ENOENT ? path : kUsualTemporary)();
  });
  if (!places.work.empty() && places.work != places.temporary) add("disk", directory(places.work), true);
  if (!host_.job().node().gpus.empty() && GpuCheck::has_tool()) add_gpus();
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
