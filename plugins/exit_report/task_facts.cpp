// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/task_facts.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef NACRE_HAVE_LIBDW
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#endif

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "task/cgroups.hpp"

namespace nacre::plugins {
namespace {

#ifdef NACRE_HAVE_LIBDW
constexpr const char* kLibdw = "libdw.so.1";

struct CloseLibdw {
  void operator()(void* handle) const { ::dlclose(handle); }
};

// The functions of libdw that are used, and of libelf, which libdw needs.
struct DwflFunctions {
  decltype(&::elf_version) elf_version;
  decltype(&::elf_begin) elf_begin;
  decltype(&::elf_end) elf_end;
  decltype(&::dwfl_begin) begin;
  decltype(&::dwfl_end) end;
  decltype(&::dwfl_core_file_report) core_file_report;
  decltype(&::dwfl_report_end) report_end;
  decltype(&::dwfl_core_file_attach) core_file_attach;
  decltype(&::dwfl_getthreads) getthreads;
  decltype(&::dwfl_thread_getframes) thread_getframes;
  decltype(&::dwfl_frame_pc) frame_pc;
  decltype(&::dwfl_addrmodule) addrmodule;
  decltype(&::dwfl_module_info) module_info;
};

template <typename Function>
bool found_in(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool all_found_in(void* library, DwflFunctions& f) {
  return found_in(library, "elf_version", f.elf_version) && found_in(library, "elf_begin", f.elf_begin) &&
         found_in(library, "elf_end", f.elf_end) && found_in(library, "dwfl_begin", f.begin) &&
         found_in(library, "dwfl_end", f.end) && found_in(library, "dwfl_core_file_report", f.core_file_report) &&
         found_in(library, "dwfl_report_end", f.report_end) &&
         found_in(library, "dwfl_core_file_attach", f.core_file_attach) &&
         found_in(library, "dwfl_getthreads", f.getthreads) &&
         found_in(library, "dwfl_thread_getframes", f.thread_getframes) &&
         found_in(library, "dwfl_frame_pc", f.frame_pc) && found_in(library, "dwfl_addrmodule", f.addrmodule) &&
         found_in(library, "dwfl_module_info", f.module_info);
}

// Only the dump is read: for debug information libdw would ask servers.
int no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; }
int no_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}

struct CrashPlace {
  const DwflFunctions& dwfl;
  Dwarf_Addr address = 0;
};

int take_frame(Dwfl_Frame* frame, void* of) {
  auto* place = static_cast<CrashPlace*>(of);
  place->dwfl.frame_pc(frame, &place->address, nullptr);
  return DWARF_CB_ABORT;  // the first frame is enough
}

// The kernel writes the thread that got the signal first.
int take_thread(Dwfl_Thread* thread, void* of) {
  static_cast<CrashPlace*>(of)->dwfl.thread_getframes(thread, take_frame, of);
  return DWARF_CB_ABORT;
}

std::string module_in(const DwflFunctions& f, Dwfl* dwfl, Elf* elf) {
  if (f.core_file_report(dwfl, elf, nullptr) < 0 || f.report_end(dwfl, nullptr, nullptr) != 0) return "";
  if (f.core_file_attach(dwfl, elf) < 0) return "";
  CrashPlace place{f};
  f.getthreads(dwfl, take_thread, &place);
  Dwfl_Module* module = place.address != 0 ? f.addrmodule(dwfl, place.address) : nullptr;
  if (module == nullptr) return "";
  const char* name = f.module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  return name != nullptr ? name : "";
}

// The file of the program or library in which the thread stood that got the signal, by the core dump; "" if that
// cannot be found. elfutils' libdw reads it, if it was there when nacre was built. It is loaded only when there is
// a core dump, so that jobs without one do not pay for it.
std::string core_module(const std::string& core) {
  std::unique_ptr<void, CloseLibdw> library(::dlopen(kLibdw, RTLD_NOW | RTLD_LOCAL));
  DwflFunctions f{};
  if (!library || !all_found_in(library.get(), f) || f.elf_version(EV_CURRENT) == EV_NONE) return "";
  UniqueFd fd(::open(core.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return "";
  std::unique_ptr<Elf, decltype(f.elf_end)> elf(f.elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr), f.elf_end);
  Dwfl_Callbacks callbacks{};
  callbacks.find_elf = no_elf;
  callbacks.find_debuginfo = no_debuginfo;
  std::unique_ptr<Dwfl, decltype(f.end)> dwfl(elf ? f.begin(&callbacks) : nullptr, f.end);
  return dwfl ? module_in(f, dwfl.get(), elf.get()) : "";
}
#else
std::string core_module(const std::string& /*core*/) { return ""; }
#endif

constexpr const char* kErrorFile = "NACRE_ERROR_FILE";
constexpr const char* kTorchFile =
    "TORCHELASTIC_ERROR_FILE";  // PyTorch: torch.distributed.elastic.multiprocessing.errors
constexpr std::size_t kMostErrorBytes = std::size_t{16} << 10;  // bytes of such a file
constexpr std::size_t kMostWords = 64;                          // of the command
constexpr std::size_t kMostWord = 1024;                         // bytes
constexpr std::size_t kMostNote = std::size_t{16} << 10;        // bytes of a member that a plugin adds
// Also the code of a program whose child was killed, as sh(1) reports it.
constexpr int kKilled = value::kSignalBase + SIGKILL;
// When the count of kills is first read, so that short jobs do not pay for it. A task that has run for less time
// may have been killed before.
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

// What is there is the task's doing: a FIFO would hold up the shell.
Json error_in(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return nullptr;
  auto text = read_file(file.get(), path, kMostErrorBytes);
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
  return !host_.sent_to_tasks(status.ending_signal());
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

// Members that the shell itself has set are not replaced.
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

// The newest of the files that match and are not older than the process.
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
// Version 1 of cgroups shows a number of about 2^63 where there is no limit.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

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
