// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/task_facts.hpp"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <string_view>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "plugins/exit_report/core_module.hpp"
#include "task/cgroups.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kErrorFile = "NACRE_ERROR_FILE";
constexpr const char* kTorchFile =
    "TORCHELASTIC_ERROR_FILE";  // PyTorch: torch.distributed.elastic.multiprocessing.errors
constexpr std::size_t kMostErrorBytes = std::size_t{16} << 10;  // bytes of such a file
constexpr std::size_t kMostWords = 64;                          // of the command
constexpr std::size_t kMostWord = 1024;                         // bytes
constexpr std::size_t kMostNote = std::size_t{16} << 10;        // bytes of a member that a plugin adds
// Also of a program whose child was killed so, as sh(1) reports it
constexpr int kKilled = value::kSignalBase + SIGKILL;
// When the count of kills is first read: so that short jobs do not pay for it. A task that has run for less may
// have been killed before.
constexpr event::Seconds kBaseline{0.1};

std::string working_directory() {
  char path[PATH_MAX];
  return ::getcwd(path, sizeof path) != nullptr ? path : "";
}

Json words_of(const std::vector<std::string>& command) {
  Json words = Json::array();
  for (const std::string& each : command) {
    if (words.size() == kMostWords) break;
    words.push_back(each.substr(0, kMostWord));
  }
  return words;
}

Json error_in(const std::string& path) {
  auto text = read_file(path, kMostErrorBytes);
  if (!text || text->empty()) return nullptr;
  if (auto json = parse_json(*text)) return *json;
  return {{"message", *text}};
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

void TaskFacts::prepare(task::Task& task, bool torch) const {
  auto directory = host_.environment().get("NACRE_JOB_TMPDIR");
  if (!directory || directory->empty()) return;
  std::string path = fmt::format("{}/error.{}", *directory, task.rank());
  if (task.attempt() > 1) ::unlink(path.c_str());
  if (torch) task.command().env.set(kTorchFile, path);
  task.command().env.set(kErrorFile, std::move(path));
}

TaskFacts::Times& TaskFacts::times(const task::Task& task) {
  if (times_.size() <= task.local_id()) times_.resize(host_.tasks().size());
  return times_.at(task.local_id());
}

void TaskFacts::started(const task::Task& task) { times(task).started = event::wall_clock(); }

Result<void> TaskFacts::watch_memory() {
  oom_timer_ = TRY(event::Timer::create(host_.loop(), [this] { oom_ = OomKills::of_shell(::getpid()); }));
  oom_timer_->unref();
  oom_timer_->start(kBaseline);
  return {};
}

void TaskFacts::exited(const task::Task& task) {
  Times& of = times(task);
  of.ended = event::wall_clock();
  if (!oom_ || task.status().job_code() != kKilled) return;
  std::uint64_t fresh = oom_->fresh();
  of.oom_is_certain = fresh == 1 && oom_left_ == 0;
  oom_left_ += fresh;
  of.oom_kills = oom_left_;
  if (oom_left_ > 0) --oom_left_;
}

bool TaskFacts::is_complete(const task::Task& task) const {
  if (task.state() != task::State::exited) return false;
  bool was_executed = task.pid() != 0;
  if (!was_executed) return true;
  auto tail = host_.task_output() != nullptr ? host_.task_output()->tail(task.rank()) : std::nullopt;
  return !tail || tail->is_complete;
}

Json TaskFacts::of(const task::Task& task) const {
  const job::Job& job = host_.job();
  Json out{{"rank", task.rank()},
           {"shell", job.shell_rank},
           {"host", job.resources.nodes[job.shell_rank].hostname},
           {"argv", words_of(task.command().argv)},
           {"cwd", working_directory()}};
  auto tail = host_.task_output() != nullptr ? host_.task_output()->tail(task.rank()) : std::nullopt;
  if (tail && !tail->out.empty()) out["stdout"] = std::move(tail->out);
  if (tail && !tail->err.empty()) out["stderr"] = std::move(tail->err);
  if (task.pid() != 0 && task.local_id() < times_.size()) add_end(out, task, times_[task.local_id()]);
  if (auto file = task.command().env.get(kErrorFile)) {
    if (Json error = error_in(std::string(*file)); !error.is_null()) out["error"] = std::move(error);
  }
  add_notes(out, task);
  return out;
}

bool TaskFacts::has_failed(const task::Task& task) const {
  const value::WaitStatus& status = task.status();
  if (!host_.exit_policy().is_failure(exits::Record::of(status))) return false;
  return !status.is_signal() || !host_.sent_to_tasks(status.signal());
}

std::string TaskFacts::error_text(const task::Task& task) const {
  auto file = task.command().env.get(kErrorFile);
  Json error = file ? error_in(std::string(*file)) : Json();
  return error.is_null() ? "" : dump_json(error);
}

std::string TaskFacts::last_line(const task::Task& task) const {
  auto tail = host_.task_output() != nullptr ? host_.task_output()->tail(task.rank()) : std::nullopt;
  return tail ? exits::last_line_of(tail->err) : "";
}

Json TaskFacts::core(const task::Task& task) const {
  const value::WaitStatus& status = task.status();
  if (!status.dumped_core() || task.pid() == 0 || task.local_id() >= times_.size()) return nullptr;
  Json out = core_file({task.pid(), status.signal(), times_[task.local_id()].started, working_directory()});
  auto file = out.find("file");
  if (file == out.end()) return out;
  if (std::string module = core_module(file->get<std::string>()); !module.empty())
    out["module"] = std::move(module);
  return out;
}

// What the shell itself knows is not replaced.
void TaskFacts::add_notes(Json& facts, const task::Task& task) const {
  plugin::Call call("report.note");
  call.in["rank"] = task.rank();
  if (Result<int> called = host_.stack().call(call); !called)
    host_.log().log(Level::warn, "exit-report", "{}", called.error().message);
  if (!call.out.is_object()) return;
  for (auto& [name, value] : call.out.items()) {
    if (facts.contains(name)) continue;
    if (dump_json(value).size() > kMostNote)
      host_.log().log(Level::warn, "exit-report", "report.note: {} has more than {} bytes: it is left out", name,
                      kMostNote);
    else
      facts[name] = std::move(value);
  }
}

void TaskFacts::add_end(Json& facts, const task::Task& task, const Times& times) const {
  const rusage& usage = task.usage();
  facts["pid"] = task.pid();
  facts["started"] = times.started;
  facts["ended"] = times.ended;
  facts["usage"] = {{"user", seconds_of(usage.ru_utime)},
                    {"system", seconds_of(usage.ru_stime)},
                    {"maxrss", static_cast<std::uint64_t>(usage.ru_maxrss) << 10}};  // bytes; the kernel's are KiB
  if (Json dump = core(task); !dump.is_null()) facts["core"] = std::move(dump);
  if (times.oom_kills > 0) {
    facts["oom"] = {{"by", "cgroup"}, {"kills", times.oom_kills}, {"certain", times.oom_is_certain}};
    if (auto limit = oom_->limit()) facts["oom"]["limit"] = *limit;
  }
}

// ---- core file --------------------------------------------------------------------------

namespace {

constexpr double kClockGrain = 1.0;  // seconds: file systems are less exact than clocks

void append_literally(std::string& glob, std::string_view text) {
  for (char each : text) {
    if (is_glob(std::string_view(&each, 1)) || each == '\\') glob += '\\';
    glob += each;
  }
}

void append_value(std::string& glob, char letter, const Dumped& process) {
  switch (letter) {
    case '%': return append_literally(glob, "%");
    case 'g': return append_literally(glob, std::to_string(::getgid()));
    case 'h': return append_literally(glob, host_name());
    case 'p': return append_literally(glob, std::to_string(process.pid));
    case 's': return append_literally(glob, std::to_string(process.signum));
    case 'u': return append_literally(glob, std::to_string(::getuid()));
    default: glob += '*';  // the time, the thread, the program as it called itself last ...
  }
}

// The newest of those that match and are not older than the process.
std::string newest(const std::string& pattern, double started) {
  glob_t found{};
  std::string out;
  double newest = started - kClockGrain;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat info {};
      if (::stat(found.gl_pathv[i], &info) < 0 || !S_ISREG(info.st_mode)) continue;
      double time = static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) / 1e9;
      if (time < newest) continue;
      newest = time;
      out = found.gl_pathv[i];
    }
  }
  ::globfree(&found);
  return out;
}

}  // namespace

std::string core_glob(std::string_view pattern, bool uses_pid, const Dumped& process) {
  std::string glob;
  bool has_pid = false;
  if (!pattern.starts_with('/')) append_literally(glob, process.directory + '/');
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      append_literally(glob, pattern.substr(i, 1));
    } else if (++i < pattern.size()) {
      has_pid = has_pid || pattern[i] == 'p';
      append_value(glob, pattern[i], process);
    }
  }
  if (uses_pid && !has_pid) glob += fmt::format(".{}", process.pid);
  return glob;
}

Json core_file(const Dumped& process, const std::string& root) {
  Json out{{"dumped", true}};
  auto text = read_file(root + "/proc/sys/kernel/core_pattern");
  if (!text) return out;
  std::string_view pattern = trim(*text);
  if (pattern.starts_with('|')) {
    pattern.remove_prefix(1);
    out["handler"] = std::string(pattern.substr(0, pattern.find(' ')));
    return out;
  }
  auto uses_pid = read_file(root + "/proc/sys/kernel/core_uses_pid");
  bool has_pid = uses_pid && trim(*uses_pid) == "1";
  std::string file = newest(core_glob(pattern, has_pid, process), process.started);
  if (file.empty())
    out["pattern"] = std::string(pattern);
  else
    out["file"] = std::move(file);
  return out;
}

// ---- oom kills --------------------------------------------------------------------------

namespace {

constexpr std::string_view kKills = "oom_kill ";
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;  // version 1 has a number for that, of about 2^63

}  // namespace

OomKills OomKills::of_shell(pid_t shell, const std::string& root) {
  OomKills out;
  auto cgroups = task::Cgroups::of_process(shell, root);
  auto directory = cgroups ? cgroups->directory("memory") : std::nullopt;
  if (!directory) return out;
  bool old = cgroups->has("memory");
  std::string events = *directory + (old ? "/memory.oom_control" : "/memory.events");
  auto seen = task::read_keyed_number(events, kKills);
  if (!seen) return out;
  out.events_file_ = std::move(events);
  out.limit_file_ = *directory + (old ? "/memory.limit_in_bytes" : "/memory.max");
  out.seen_ = *seen;
  return out;
}

std::uint64_t OomKills::fresh() {
  if (events_file_.empty()) return 0;
  auto now = task::read_keyed_number(events_file_, kKills);
  if (!now || *now < seen_) return 0;
  return *now - std::exchange(seen_, *now);
}

std::optional<std::uint64_t> OomKills::limit() const {
  if (limit_file_.empty()) return std::nullopt;
  auto limit = task::read_number(limit_file_);
  return limit && *limit < kNoLimit ? std::optional(*limit) : std::nullopt;
}

}  // namespace nacre::plugins
