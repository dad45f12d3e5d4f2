// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/flight_dumps.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "doctor/pickle.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostEnvironment = std::size_t{4} << 20;  // bytes

// As the process itself would find it.
std::string reached(pid_t pid, const std::string& path) {
  return fmt::format("/proc/{}/{}/{}", pid, path.starts_with('/') ? "root" : "cwd", path);
}

// 0, or an errno: ENXIO, nobody reads it.
int write_to_pipe(const std::string& path) {
  UniqueFd pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!pipe) return errno;
  struct stat about {};
  if (::fstat(pipe.get(), &about) != 0) return errno;
  if (!S_ISFIFO(about.st_mode)) return ENXIO;
  return ::write(pipe.get(), "1", 1) == 1 || errno == EAGAIN ? 0 : errno;  // it is full of what others have asked
}

}  // namespace

std::optional<std::string> variable_in(std::string_view environment, std::string_view name) {
  for (std::string_view each : split(environment, '\0')) {
    if (each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=')
      return std::string(each.substr(name.size() + 1));
  }
  return std::nullopt;
}

void FlightDumps::start(std::function<void()> done) {
  done_ = std::move(done);
  for (const auto& task : host_.tasks()) {
    if (task->state() != task::State::running) continue;
    ask(task->rank(), task->pid());
    for (pid_t pid : event::descendants_of(task->pid(), event::best_lookup())) ask(task->rank(), pid);
  }
  if (open_.empty()) return;
  until_ = event::clock_now() + kMostTime;
  auto timer = event::Timer::create(host_.loop(), [this] { look(); });
  if (!timer) {
    notes_.insert(timer.error().message);
    open_.clear();
    return;
  }
  timer_ = *std::move(timer);
  timer_->unref();
  timer_->start(kPeriod, kPeriod);
}

// Those that it has started have the same environment, and no pipe of their own.
void FlightDumps::ask(std::uint32_t rank, pid_t pid) {
  auto environment = read_file(fmt::format("/proc/{}/environ", pid), kMostEnvironment);
  if (!environment || open_.size() >= kMostProcesses) return;
  auto pipe = variable_in(*environment, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
  auto torch_rank = parse_u64(variable_in(*environment, "RANK").value_or(fmt::format("{}", rank)));
  constexpr std::uint64_t kMostRank = 1'000'000'000;
  if (!pipe || pipe->empty() || !torch_rank || *torch_rank > kMostRank) return;
  auto file = variable_in(*environment, "TORCH_FR_DUMP_TEMP_FILE");
  if (!file) file = variable_in(*environment, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
  Asked asked{rank, static_cast<std::uint32_t>(*torch_rank), {}, {}, {}, {}};
  asked.file = reached(pid, fmt::format("{}{}", file.value_or("/tmp/nccl_trace_rank_"), *torch_rank));
  asked.before = asked.seen = stamp_of(asked.file);
  std::string path = fmt::format("{}{}.pipe", *pipe, *torch_rank);
  if (pipes_.contains(path)) return;
  int code = write_to_pipe(reached(pid, path));
  if (code == 0) {
    pipes_.insert(path);
    open_.push_back(std::move(asked));
  } else if (code != ENOENT && code != ENXIO) {  // it has not begun with torch yet, or is not what does
    notes_.insert(fmt::format("no dump of torch's Flight Recorder: its pipe: {}", std::strerror(code)));
  }
}

FlightDumps::Stamp FlightDumps::stamp_of(const std::string& file) {
  struct stat about {};
  if (::lstat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return {};
  return {about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_ino, about.st_size};
}

void FlightDumps::look() {
  std::erase_if(open_, [this](Asked& each) { return take(each); });
  if (!open_.empty() && event::clock_now() >= until_) give_up();
  if (!open_.empty()) return;
  timer_->stop();
  if (auto done = std::exchange(done_, nullptr)) done();  // it may destroy this object
}

// It may be in the middle of writing, so its file is read when it has been the same at two looks.
bool FlightDumps::take(Asked& asked) {
  Stamp now = stamp_of(asked.file);
  bool is_new = now.size > 0 && now != asked.before;
  bool is_still = now == std::exchange(asked.seen, now);
  if (!is_new || !is_still) return false;
  UniqueFd file(::open(asked.file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return false;
  auto dump = read_file(file.get(), "it", doctor::Pickle::kMostBytes);
  constexpr double kNanoseconds = 1e9;  // of a second
  double written = static_cast<double>(now.seconds) + static_cast<double>(now.nanoseconds) / kNanoseconds;
  auto log = dump ? doctor::collectives_in(*dump, written) : Result<doctor::CollectiveLog>(dump.error());
  asked.before = now;  // it is read again if there is more of it
  if (!log) {
    asked.error = log.error().message;
    return false;
  }
  log->ranks.insert(asked.rank);
  log->torch_ranks.insert(asked.torch_rank);
  logs_.push_back(*std::move(log));
  return true;
}

void FlightDumps::give_up() {
  for (const Asked& each : open_) {
    notes_.insert(each.error.empty()
                      ? fmt::format("torch's Flight Recorder has written no dump within {:g} s", kMostTime.count())
                      : "the dump of torch's Flight Recorder is not read: " + each.error);
  }
  open_.clear();
}

}  // namespace nacre::plugins
