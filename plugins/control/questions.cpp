// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/questions.hpp"

#include <unistd.h>

#include <filesystem>

#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "plugin/questions.hpp"
#include "plugins/affinity/affinity.hpp"
#include "plugins/affinity/affinity_option.hpp"
#include "plugins/usage/meter.hpp"
#include "task/cpus.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostInRecord = std::size_t{32} << 10;  // bytes of rows before the last: less than a record's
                                                              // limit
constexpr std::size_t kMostUnsentAnswers = 4096;              // records
constexpr std::string_view kProcesses = "processes";
constexpr std::string_view kProcessesWithGpus = "processes-gpu";
constexpr std::string_view kPlaces = "places";
constexpr std::size_t kMostNotes = 8;  // of all shells

template <typename Row>
std::vector<Json> rows_of(const std::vector<Row>& from) {
  std::vector<Json> out;
  out.reserve(from.size());
  for (const Row& each : from) out.push_back(each.json());
  return out;
}

}  // namespace

void Questions::serve() {
  asked_ = plugin::serve_questions(
      host_, records_, kTopic, [this](bulk::Id origin, std::string_view bytes) { take(origin, bytes); },
      [this](std::string_view question) { answer(question); });
}

// ---- a shell that is asked -----------------------------------------------------------------

// An answer that is not sent, because the leader asks more than it takes, counts as late there.
void Questions::answer(std::string_view question) {
  auto words = split(question, ' ');
  auto number = words.size() == 2 ? parse_u64(words[1]) : std::nullopt;
  if (!number || records_.waiting() > kMostUnsentAnswers) return;
  if (words[0] == kProcesses) return send(*number, rows_of(task_processes(host_)), notes_on_processes(host_));
  if (words[0] == kPlaces) return send(*number, rows_of(task_places(host_)), {});
  if (words[0] != kProcessesWithGpus) return;
  gpus_.ask([this, number = *number](const auto& gpus, const Notes& notes) {
    send(number, rows_of(task_processes(host_, gpus)), notes);
  });
}

void Questions::send(std::uint64_t number, std::vector<Json> rows, const Notes& notes) {
  std::size_t next = 0;
  do {
    Json some = Json::array();
    for (std::size_t bytes = 0; next < rows.size() && bytes < kMostInRecord; ++next) {
      bytes += dump_json(rows[next]).size();
      some.push_back(std::move(rows[next]));
    }
    bool is_last = next == rows.size();
    Json record{{"question", number}, {"last", is_last}, {"tasks", std::move(some)}};
    if (is_last && !notes.empty()) record["notes"] = notes;
    records_.put(dump_json(record));
  } while (next < rows.size());
}

// ---- the leader ----------------------------------------------------------------------------

template <typename Row>
Result<void> Questions::ask(std::string_view word, const std::vector<Row>& own, const Notes& notes,
                            Done<Row> done) {
  using Asked = plugin::OpenQuestions<ShellAnswers>;
  auto finish = [done = std::move(done)](const Asked::Answered& all) {
    std::vector<Row> rows;
    for (const Json& each : all.answer.rows) {
      if (auto row = Row::parse(each)) rows.push_back(*std::move(row));
    }
    std::sort(rows.begin(), rows.end());
    done(std::move(rows), all.late, all.answer.notes);
  };
  auto text = [word](std::uint64_t number) { return fmt::format("{} {}", word, number); };
  CHECK_OK(open_.ask({open_.others(), kMostAnswerTime, {rows_of(own), notes}, text, std::move(finish)}));
  return {};
}

Result<void> Questions::ask_processes(Done<TaskProcess> done) {
  return ask<TaskProcess>(kProcesses, task_processes(host_), notes_on_processes(host_), std::move(done));
}

// Asks this shell first: the other shells are asked once its answer is there, and only then does their time begin.
void Questions::ask_processes_with_gpus(Done<TaskProcess> done, std::function<void(const Error&)> refused) {
  gpus_.ask([this, done = std::move(done), refused = std::move(refused)](const auto& gpus, const Notes& notes) {
    auto asked = ask<TaskProcess>(kProcessesWithGpus, task_processes(host_, gpus), notes, done);
    if (!asked) refused(asked.error());
  });
}

Result<void> Questions::ask_places(Done<TaskPlace> done) {
  return ask<TaskPlace>(kPlaces, task_places(host_), {}, std::move(done));
}

void Questions::take(std::uint32_t shell, std::string_view bytes) {
  auto json = parse_json(bytes);
  if (!json || !json->is_object()) return;
  JsonAt at = JsonAt::root(*json);
  auto number = at.at("question");
  auto tasks = at.at("tasks");
  if (!number || !tasks || !number->json().is_number_unsigned() || !tasks->json().is_array()) return;
  auto question = number->json().get<std::uint64_t>();
  ShellAnswers* answers = open_.find(question, shell);
  if (answers == nullptr) return;
  for (const Json& each : tasks->json()) answers->rows.push_back(each);
  if (auto notes = at.find("notes"); notes && *notes && (*notes)->json().is_array()) {
    for (const Json& each : (*notes)->json()) {
      if (each.is_string() && answers->notes.size() < kMostNotes) answers->notes.insert(each.get<std::string>());
    }
  }
  if (auto last = at.at("last"); last && last->json() == true) open_.complete(question, shell);
}

// ---- processes --------------------------------------------------------------------------

namespace {

using Process = std::pair<std::int64_t, ProcessStat>;

// In the order of their numbers.
std::vector<Process> all_processes() {
  std::vector<Process> out;
  for (pid_t pid : numbers_in("/proc")) {
    if (auto stat = ProcessStat::of(pid)) out.emplace_back(pid, *std::move(stat));
  }
  auto by_number = [](const Process& a, const Process& b) { return a.first < b.first; };
  std::sort(out.begin(), out.end(), by_number);
  return out;
}

// Null: there is none.
const ProcessStat* find_process(const std::vector<Process>& all, std::int64_t pid) {
  auto found = std::lower_bound(all.begin(), all.end(), pid,
                                [](const Process& each, std::int64_t wanted) { return each.first < wanted; });
  return found != all.end() && found->first == pid ? &found->second : nullptr;
}

// The one of `tasks` that a process is or is below; 0: none. Process ids are reused, so the way up is limited.
std::int64_t task_above(const std::vector<Process>& all, const std::set<std::int64_t>& tasks, std::int64_t pid) {
  constexpr int kMaxDepth = 1024;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (tasks.contains(pid)) return pid;
    const ProcessStat* process = find_process(all, pid);
    if (process == nullptr) return 0;
    pid = process->parent;
  }
  return 0;
}

// Tasks with what the shell itself knows of them.
std::vector<TaskProcess> tasks_that_run(plugin::Host& host, const std::map<std::uint32_t, usage::TaskGpu>& gpus) {
  std::vector<TaskProcess> out;
  for (const auto& task : host.tasks()) {
    if (task->state() != task::State::running) continue;
    TaskProcess& added = out.emplace_back();
    added.rank = task->rank();
    added.pid = task->pid();
    if (auto gpu = gpus.find(task->rank()); gpu != gpus.end()) added.gpu = gpu->second;
  }
  return out;
}

// Parses a row of the plugin pmi.
Result<TaskProcess> parse_spawned(const JsonAt& at, std::uint32_t shell) {
  TaskProcess out;
  out.origin = SpawnOrigin{0, 0, shell};
  CHECK_OK(wire::Object{[](auto& io, TaskProcess& m) {
             io.has("rank", m.rank);
             io.has("pid", m.pid, wire::Between{1, INT32_MAX});
             io.has("spawn", m.origin->spawn, wire::Between{1});
             io.has("task", m.origin->task);
           }}.read(at, out));
  return out;
}

Result<std::vector<TaskProcess>> spawned_that_run(plugin::Host& host) {
  plugin::Call call("pmi.processes");
  TRY(host.stack().call(call));
  std::vector<TaskProcess> out;
  auto processes = TRY(JsonAt::root(call.out, call.topic).find("processes"));
  if (!processes) return out;
  for (const JsonAt& each : TRY(processes->elements()))
    out.push_back(TRY(parse_spawned(each, host.job().shell_rank)));
  return out;
}

}  // namespace

void elements(auto& io, wire::Of<SpawnOrigin> auto& m) {
  io.are("spawn, task and shell");
  io.has(m.spawn, wire::Between{1});
  io.has(m.task);
  io.has(m.shell);
}

void elements(auto& io, wire::Of<TaskProcess> auto& m) {
  io.are("seven to nine members of a process");
  io.has(m.rank);
  io.has(m.pid, wire::Between{1, INT32_MAX});
  io.has(m.state);
  io.has(m.elapsed);
  io.has(m.cpu);
  io.has(m.memory);
  io.has(m.program);
  if (io.has_more(m.origin.has_value(), 1)) io.has(m.origin);
  if (!io.has_more(m.gpu.has_value(), 2)) return;
  usage::TaskGpu gpu = m.gpu.value_or(usage::TaskGpu());
  io.has(gpu.memory);
  io.has(gpu.device_use);
  if constexpr (wire::kReads<decltype(io)>) m.gpu = gpu;
}

Json TaskProcess::json() const { return wire::to_json(*this); }

Result<TaskProcess> TaskProcess::parse(const Json& json) { return wire::from_json<TaskProcess>(json); }

bool operator<(const TaskProcess& a, const TaskProcess& b) {
  auto spawn_of = [](const TaskProcess& each) { return each.origin ? each.origin->spawn : 0; };
  return std::pair(spawn_of(a), a.rank) < std::pair(spawn_of(b), b.rank);
}

std::set<std::string> notes_on_processes(plugin::Host& host) {
  std::set<std::string> out;
  const std::string& name = host.job().node().hostname;
  const std::string_view where = name.empty() ? std::string_view("here") : name;
  if (!has_proc())
    out.insert(fmt::format("{}: /proc is not mounted: what processes do and use is not known", where));
  std::vector<value::Idset::Id> waiting;
  for (const auto& task : host.tasks()) {
    if (task->state() == task::State::init) waiting.push_back(task->rank());
  }
  if (!waiting.empty())
    out.insert(fmt::format("{}: {} task{} wait{} for others to end (at-most): {}", where, waiting.size(),
                           waiting.size() == 1 ? "" : "s", waiting.size() == 1 ? "s" : "",
                           value::Idset::of(waiting).short_str()));
  return out;
}

std::vector<TaskProcess> task_processes(plugin::Host& host, const std::map<std::uint32_t, usage::TaskGpu>& gpus) {
  std::vector<TaskProcess> wanted = tasks_that_run(host, gpus);
  if (auto spawned = spawned_that_run(host)) {
    wanted.insert(wanted.end(), spawned->begin(), spawned->end());
  } else {
    host.log().log(Level::warn, "control", "{}", spawned.error().message);
  }
  std::vector<TaskProcess> out;
  if (wanted.empty()) return out;
  std::set<std::int64_t> pids;
  for (const TaskProcess& each : wanted) pids.insert(each.pid);
  auto all = all_processes();
  auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  double now = seconds_since_boot();
  const bool is_known = !all.empty() || has_proc();
  std::map<std::int64_t, std::size_t> index;
  for (TaskProcess& each : wanted) {
    const ProcessStat* stat = find_process(all, each.pid);
    if (stat == nullptr && is_known) continue;
    if (stat == nullptr) {
      each.state = "?";
      out.push_back(std::move(each));
      continue;
    }
    index.emplace(each.pid, out.size());
    each.state = std::string(1, stat->state);
    each.elapsed = std::max(0.0, now - static_cast<double>(stat->start) / ticks);
    each.program = stat->name;
    out.push_back(std::move(each));
  }
  for (const auto& [pid, stat] : all) {
    auto of = index.find(task_above(all, pids, pid));
    if (of == index.end()) continue;
    out[of->second].cpu += static_cast<double>(stat.own_ticks() + stat.children_ticks()) / ticks;
    out[of->second].memory += stat.pages * page;
  }
  std::sort(out.begin(), out.end());
  return out;
}

// ---- gpu answers ------------------------------------------------------------------------

bool GpuAnswers::answer_by_plugin(const Done& done) {
  plugin::Call call("usage.gpus");
  if (!host_.stack().call(call) || !call.out.is_object() || !call.out.contains("tasks")) return false;
  auto tasks = gpus_from(call.out["tasks"]);
  if (!tasks) return false;
  std::set<std::string> notes;
  for (const Json& each : call.out.value("notes", Json::array())) {
    if (each.is_string()) notes.insert(each.get<std::string>());
  }
  done(*tasks, notes);
  return true;
}

void GpuAnswers::ask(Done done) {
  if (answer_by_plugin(done)) return;
  if (is_over_) return done({}, {});
  if (!watch_) watch_.emplace(host_, nullptr);
  if (!timer_) {
    auto timer = event::Timer::create(host_.loop(), [this] {
      tell({fmt::format("the tools of GPUs have not answered within {:g} s", kMostWait.count())});
    });
    if (!timer) return done({}, {timer.error().message});
    timer_ = *std::move(timer);
    timer_->unref();
  }
  waiting_.push_back(std::move(done));
  if (waiting_.size() == 1) timer_->start(kMostWait);
  if (std::exchange(is_looking_, true)) return;
  watch_->look([this](const usage::GpuLook& look) {
    is_looking_ = false;
    last_ = gpus_of_tasks(host_, look);
    if (look.is_complete) {
      for (const auto& task : host_.tasks()) {
        if (task->state() == task::State::running) last_.emplace(task->rank(), usage::TaskGpu{0, std::nullopt});
      }
    }
    tell(watch_->notes());
  });
}

void GpuAnswers::tell(const std::set<std::string>& notes) {
  timer_->stop();
  for (Done& each : std::exchange(waiting_, {})) each(last_, notes);
}

void GpuAnswers::stop() {
  is_over_ = true;
  watch_.reset();
  timer_.reset();
  waiting_.clear();
}

// ---- task places ------------------------------------------------------------------------

namespace {

using Mode = AffinityOption::Mode;

constexpr std::array<const char*, 3> kGpuVariables = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                      "ZE_AFFINITY_MASK"};

class Placing {
 public:
  explicit Placing(plugin::Host& host) : host_(host), plan_(ask_for_plan(host, "ps --plan")) {
    if (auto option = AffinityOption::read(host.options().at("gpu-affinity"), AffinityOption::Resource::gpus))
      gpu_option_ = *std::move(option);
  }

  [[nodiscard]] TaskPlace of(const task::Task& task) const {
    TaskPlace out;
    out.rank = task.rank();
    out.pid = task.pid();
    out.cpus_now = task::cpus_allowed_to(task.pid()).str();
    std::error_code gone;
    out.executable = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", task.pid()), gone).string();
    const PlacedTask* placed = plan_ ? &plan_->placement.tasks[task.slot()] : nullptr;
    const task::ChildSetup& setup = task.command().setup;
    if (plan_ && plan_->is_dry_run)
      out.unset = "dry-run";
    else if (setup.is_pretended)
      out.unset = "a made-up machine";
    out.cpus = cpus(placed, out.cpus_now);
    if (setup.memory)
      out.memory = {task::memory_policy_text(*setup.memory), placed != nullptr ? placed->memory_why : ""};
    else if (placed != nullptr && !placed->memory_why.empty())
      out.memory = {placed->memory.str(), placed->memory_why};
    out.gpus = gpus(task, placed);
    if (placed != nullptr && !placed->nics_why.empty())
      out.nics = {fmt::format("{}", fmt::join(placed->nics, ",")), placed->nics_why};
    return out;
  }

 private:
  [[nodiscard]] TaskPlace::Part cpus(const PlacedTask* placed, const std::string& now) const {
    if (placed == nullptr) return {now, plan_.error().message};
    TaskPlace::Part out{placed->cpus.str(), placed->cpus_why};
    if (const value::Idset& unused = plan_->placement.unused; !unused.empty())
      out.why += fmt::format("; cpus {} of the job have no task", unused.str());
    return out;
  }

  // The task sees what its environment names; the option has the reason.
  [[nodiscard]] TaskPlace::Part gpus(const task::Task& task, const PlacedTask* placed) const {
    auto count = host_.job().node().gpus.size();
    if (count == 0 && !gpu_option_.given) return {};
    const bool is_by_plan = gpu_option_.mode == Mode::closest || gpu_option_.mode == Mode::prefer_closest;
    bool is_closest = is_by_plan && placed != nullptr && !placed->gpus_why.empty();
    if (is_closest && gpu_option_.dry_run)
      return {fmt::format("{}", fmt::join(placed->gpus, ",")), placed->gpus_why};
    std::string_view seen;
    for (const char* name : kGpuVariables) {
      if (auto value = task.command().env.get(name); value && seen.empty()) seen = *value;
    }
    std::string where(seen == "-1" ? "none" : seen.empty() ? "not restricted" : seen);
    if (is_closest) return {where, placed->gpus_why};
    if (gpu_option_.mode == Mode::map) return {where, "as the map has it"};
    if (gpu_option_.mode == Mode::off) return {where, "as its environment has it"};
    if (gpu_option_.mode == Mode::on) return {where, fmt::format("all {} that the job has on the node", count)};
    return {where, fmt::format("its part of the job's {} on the node", count)};
  }

  plugin::Host& host_;
  Result<AffinityPlan> plan_;
  AffinityOption gpu_option_;
};

}  // namespace

void elements(auto& io, wire::Of<TaskPlace::Part> auto& m) {
  io.are("where and why");
  io.has(m.where);
  io.has(m.why);
}

void elements(auto& io, wire::Of<TaskPlace> auto& m) {
  io.are("nine members of a place");
  io.has(m.rank);
  io.has(m.pid, wire::Between{1, INT32_MAX});
  io.has(m.cpus);
  io.has(m.memory);
  io.has(m.gpus);
  io.has(m.nics);
  io.has(m.cpus_now);
  io.has(m.unset);
  io.has(m.executable);
}

Json TaskPlace::json() const { return wire::to_json(*this); }

Result<TaskPlace> TaskPlace::parse(const Json& json) { return wire::from_json<TaskPlace>(json); }

std::vector<TaskPlace> task_places(plugin::Host& host) {
  std::vector<TaskPlace> out;
  auto runs = [](const auto& task) { return task->state() == task::State::running; };
  auto tasks = host.tasks();
  if (std::none_of(tasks.begin(), tasks.end(), runs)) return out;
  Placing placing(host);
  for (const auto& task : tasks) {
    if (runs(task)) out.push_back(placing.of(*task));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

}  // namespace nacre::plugins
