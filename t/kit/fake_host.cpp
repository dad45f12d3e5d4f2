// SPDX-License-Identifier: Apache-2.0
#include "fake_host.hpp"

#include <uv.h>

#include "plugin/events.hpp"

namespace nacre::kit {
namespace {

constexpr pid_t kNoProcess = 1 << 30;  // Linux has no process ids as large

template <typename T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "FakeHost: {}\n", result.error().message);
    std::abort();
  }
  return *std::move(result);
}

}  // namespace

std::string jobspec_of(std::uint32_t tasks) {
  return fmt::format(R"({{"version":1,"resources":[{{"type":"slot","count":{},"label":"task",
    "with":[{{"type":"core","count":1}}]}}],
    "tasks":[{{"command":["true"],"slot":"task","count":{{"per_slot":1}}}}],
    "attributes":{{"system":{{"duration":0}}}}}})",
                     tasks);
}

std::string fake_nodes(std::uint32_t nodes, std::uint32_t cores) {
  const std::string ids = nodes == 1 ? "0" : fmt::format("0-{}", nodes - 1);
  return fmt::format(R"({{"version":1,"execution":{{"R_lite":[{{"rank":"{}","children":{{"core":"0-{}"}}}}],
    "nodelist":["fake{}"],"starttime":0,"expiration":0}}}})",
                     ids, cores - 1, nodes == 1 ? ids : "[" + ids + "]");
}

FakeHost::FakeHost(std::uint32_t tasks) : FakeHost(jobspec_of(tasks), fake_nodes(1, tasks)) {}

FakeHost::FakeHost(std::string_view jobspec, std::string_view resources, std::uint32_t shell_rank)
    : FakeShells(must(job::Job::create(value::JobId(1), shell_rank, must(job::Jobspec::parse(jobspec)),
                                       must(job::Resources::parse(resources)), std::nullopt))),
      loop_(must(event::Loop::create())),
      children_(must(event::Children::create(*loop_, {}))),
      options_(job_.spec.options) {
  loop_->look_for_standstills(event::Seconds(1e9));  // so that next_timer() returns the whole grace
  log_.set_level(Level::trace);
  log_.add_sink("record", [this](const LogEntry& entry) {
    logged.push_back(fmt::format("{} {}: {}", level_name(entry.level), entry.component, entry.message));
  });
}

FakeHost::~FakeHost() = default;

Json FakeHost::info() const {
  return Json{{"jobid", job_.id.value()},      {"rank", job_.shell_rank},
              {"size", job_.shells()},         {"ntasks", job_.tasks()},
              {"service", "fake-shell"},       {"options", {{"verbose", 0}, {"standalone", true}}},
              {"jobspec", job_.spec.document}, {"R", job_.resources.document}};
}

void FakeHost::signal_tasks(int signum, const std::optional<value::Idset>& ranks) {
  job_signals.emplace_back(signum, ranks ? ranks->str() : "all");
}

bool FakeHost::ending() const {
  bool fatal =
      std::any_of(exceptions.begin(), exceptions.end(), [](const auto& each) { return each.severity == 0; });
  return fatal || !deaths.empty();
}

void FakeHost::kill_tasks(int signum) {
  signals.push_back(signum);
  signalled_also_.call(signum);
}

void FakeHost::add_event_context(std::string_view event, const Json& members) {
  event_context[std::string(event)].update(members);
}

void FakeHost::die(int exit_code, std::string_view component, std::string_view message) {
  deaths.push_back(fmt::format("{} {}: {}", exit_code, component, message));
}

void FakeHost::make_tasks() {
  std::uint32_t local_id = 0;
  for (value::Idset::Id rank : job_.taskmap.ranks_on(job_.shell_rank).ids()) {
    task::Command command{job_.spec.command, job::Environment::over(environment_), {}};
    job::set_task_variables(command.env, rank, local_id);
    tasks_.push_back(std::make_unique<task::Task>(rank, local_id++, std::move(command)));
  }
}

Result<int> FakeHost::call(std::string_view topic) {
  plugin::Call call(topic);
  return stack_.call(call);
}

Result<int> FakeHost::call_task(std::string_view topic, std::size_t local_id) {
  current_ = tasks_[local_id].get();
  Result<int> result = call(topic);
  current_ = nullptr;
  return result;
}

void FakeHost::start_tasks(const std::map<std::size_t, pid_t>& pids) {
  make_tasks();
  for (const auto& task : tasks_) {
    auto given = pids.find(task->local_id());
    task->started(given != pids.end() ? given->second : kNoProcess + static_cast<pid_t>(task->local_id()));
  }
}

Result<int> FakeHost::end_task(std::size_t local_id, const value::WaitStatus& status) {
  tasks_[local_id]->exited(status, {});
  auto told = call_task("task.exit", local_id);
  if (!told) return told;
  const auto rank = static_cast<value::Idset::Id>(tasks_[local_id]->rank());
  return TRY(report_ends(value::Idset::range(rank, rank), exits::Record::of(status))) + *told;
}

Result<int> FakeHost::report_ends(const value::Idset& ranks, const exits::Record& record) {
  ends.add(ranks, record);
  const plugin::TasksExited exited(ranks, record);
  plugin::Call call(plugin::TasksExited::kTopic, exited);
  return stack_.call(call);
}

bool FakeHost::run_loop() {
  bool late = false;
  auto guard = must(event::Timer::create(*loop_, [&] {
    late = true;
    loop_->stop();
  }));
  guard.start(kTimeout);
  guard.unref();
  loop_->run();
  return !late;
}

bool FakeHost::serve(const std::function<bool()>& done) {
  bool late = false;
  auto guard = must(event::Timer::create(*loop_, [&] { late = true; }));
  auto look = must(event::Timer::create(*loop_, [] {}));
  guard.start(kTimeout);
  look.start(event::Seconds(0.01), event::Seconds(0.01));
  loop_->run_until([&] { return late || done(); });
  return !late;
}

std::optional<event::Seconds> FakeHost::next_timer() {
  std::optional<event::Seconds> next;
  auto visit = [](uv_handle_t* handle, void* data) {
    if (handle->type != UV_TIMER || uv_is_active(handle) == 0) return;
    std::chrono::milliseconds due(uv_timer_get_due_in(reinterpret_cast<uv_timer_t*>(handle)));
    auto& earliest = *static_cast<std::optional<event::Seconds>*>(data);
    earliest = std::min(earliest.value_or(due), event::Seconds(due));
  };
  uv_walk(loop_->raw(), visit, &next);
  return next;
}

}  // namespace nacre::kit
