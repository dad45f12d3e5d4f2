// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/slow_watch.hpp"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "base/json.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "plugins/exit_report/report_file.hpp"

namespace nacre::plugins {
namespace {

constexpr double kForOthers = 0.25;             // of a window: the leader waits for those of other shells
constexpr double kMostForOthers = 5;            // seconds, likewise
constexpr double kLateGrowth = 1.5;             // of the time from one growth to the next: then it is slower by now
constexpr std::size_t kMostUnsentWindows = 16;  // windows: who takes none for long gets no more
constexpr std::size_t kMostSent = 4096;         // tasks in a record

double cpu_of_this_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  constexpr double kPerSecond = 1e9;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / kPerSecond;
}

}  // namespace

// ---- of this shell ---------------------------------------------------------------------

PaceMeter::Mark PaceMeter::mark_of(const task::Task& task) const {
  Mark out;
  out.pid = task.pid();
  std::vector<pid_t> pids = event::descendants_of(task.pid(), event::best_lookup());
  pids.push_back(task.pid());
  for (pid_t pid : pids) {
    if (auto look = cpu_look_at(pid, most_threads_)) out.processes.emplace(pid, *std::move(look));
  }
  plugin::TaskOutput* output = host_.task_output();
  if (output == nullptr) return out;
  auto written = output->written(task.rank());
  if (written.out && written.err) out.bytes = *written.out + *written.err;
  if (!word_.empty()) out.number = output->largest_number(task.rank(), word_);
  return out;
}

// By when it has grown, as a window ends anywhere between two steps.
void PaceMeter::count(const Mark& before, Mark& now) const {
  now.has_grown = before.has_grown;
  now.rate = before.rate;
  if (!now.number) return;
  const double first = before.number ? before.number->value : now.number->value - 1;
  if (now.number->value > first) {
    const double time = before.number ? now.number->grown - before.number->grown : 0;
    if (before.has_grown && time > 0) now.rate = (now.number->value - first) / time;
    now.has_grown = true;
  } else {
    now.number = before.number;
  }
}

doctor::TaskPace PaceMeter::pace_of(const Mark& before, Mark& now, double seconds) const {
  doctor::TaskPace out;
  double cpu_before = 0, cpu = 0, ready = 0;
  bool is_counted = false;
  for (const auto& [pid, look] : before.processes) cpu_before += look.cpu;
  for (const auto& [pid, look] : now.processes) {
    cpu += look.cpu;
    auto earlier = before.processes.find(pid);
    for (const auto& [tid, time] : look.ready) {
      is_counted = true;
      if (earlier == before.processes.end()) continue;
      auto known = earlier->second.ready.find(tid);
      if (known != earlier->second.ready.end()) ready += std::max(0.0, time - known->second);
    }
  }
  if (is_counted) {
    out.cpu = std::max(0.0, cpu - cpu_before) / seconds;
    out.ready = ready / seconds;
  }
  if (before.bytes && now.bytes && *now.bytes >= *before.bytes)
    out.bytes = static_cast<double>(*now.bytes - *before.bytes);
  count(before, now);
  if (!now.rate || !now.number) return out;
  const double idle = event::wall_clock() - now.number->grown;
  const bool is_late = now.number->took > 0 && idle > std::max(seconds, kLateGrowth * now.number->took);
  out.rate = is_late ? *now.rate * now.number->took / idle : *now.rate;
  return out;
}

doctor::PaceWindow PaceMeter::measure() {
  const double cost_before = cpu_of_this_thread();
  const event::Seconds now = event::clock_now();
  doctor::PaceWindow out;
  out.seconds = (now - std::exchange(measured_, now)).count();
  std::map<std::uint32_t, Mark> marks;
  for (const auto& task : host_.tasks()) {
    if (task->state() != task::State::running) continue;
    Mark& mark = marks.emplace(task->rank(), mark_of(*task)).first->second;
    auto before = marks_.find(task->rank());
    if (before == marks_.end() || before->second.pid != mark.pid) continue;
    doctor::TaskPace pace = pace_of(before->second, mark, out.seconds);
    pace.rank = task->rank();
    out.tasks.push_back(pace);
  }
  marks_ = std::move(marks);
  add_gpus(out);
  const double cost = cpu_of_this_thread() - cost_before;
  if (cost > kMostCost * out.seconds) most_threads_ = std::max<std::size_t>(1, most_threads_ / 2);
  return out;
}

// By the last look of the option usage-gpu.
void PaceMeter::add_gpus(doctor::PaceWindow& window) {
  if (host_.options().find("usage-gpu") == nullptr) return;
  plugin::Call call("usage.gpus");
  if (!host_.stack().call(call) || !call.out.is_object()) return;
  for (const Json& each : call.out.value("tasks", Json::array())) {
    if (!each.is_array() || each.size() < 3 || !each[0].is_number_unsigned() || !each[2].is_number()) continue;
    auto found = std::find_if(window.tasks.begin(), window.tasks.end(),
                              [&](const auto& task) { return task.rank == each[0].get<std::uint32_t>(); });
    if (found != window.tasks.end()) found->gpu = each[2].get<double>();
  }
}

// ---- each shell ------------------------------------------------------------------------

void SlowWatch::serve() {
  bulk::Port* port = host_.bulk();
  if (port == nullptr) return;
  records_.serve(*port, [this](bulk::Id shell, std::string_view bytes) { take(shell, bytes); });
}

Result<void> SlowWatch::start() {
  judging_ = TRY(event::Timer::create(host_.loop(), [this] { judge(); }));
  judging_->unref();
  timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
  timer_->unref();
  static_cast<void>(meter_.measure());
  timer_->start(event::Seconds(option_.window.seconds()), event::Seconds(option_.window.seconds()));
  return {};
}

void SlowWatch::stop() {
  has_stopped_ = true;
  if (!host_.job().leads()) all_ended();
}

void SlowWatch::all_ended() {
  timer_.reset();
  judging_.reset();
}

void SlowWatch::gone(std::uint32_t shell) {
  come_.erase(shell);
  finder_.forget(shell);
}

void SlowWatch::look() {
  if (host_.ending()) return;
  if (!has_stopped_) {
    doctor::PaceWindow window = meter_.measure();
    if (host_.job().leads()) {
      keep(host_.job().shell_rank, std::move(window));
    } else if (!window.tasks.empty() && records_.waiting() < kMostUnsentWindows) {
      if (window.tasks.size() > kMostSent) window.tasks.resize(kMostSent);
      records_.put(window.text());
    }
  }
  if (host_.job().leads())
    judging_->start(event::Seconds(std::min(kForOthers * option_.window.seconds(), kMostForOthers)));
}

// ---- the leader ------------------------------------------------------------------------

void SlowWatch::take(std::uint32_t shell, std::string_view bytes) {
  if (bytes.empty()) return;
  auto window = doctor::PaceWindow::parse(bytes);
  if (window) return keep(shell, *std::move(window));
  host_.log().log(Level::warn, "doctor", "slow-watch: shell {}: {}: a window is left out", shell,
                  window.error().message);
}

// A task that has been started elsewhere meanwhile is not its any more.
void SlowWatch::keep(std::uint32_t shell, doctor::PaceWindow window) {
  const job::Job& job = host_.job();
  std::erase_if(window.tasks,
                [&](const doctor::TaskPace& each) { return job.taskmap.node_of(each.rank) != shell; });
  const auto& nodes = job.resources.nodes;
  come_.insert_or_assign(
      shell, doctor::SlowFinder::Host{shell < nodes.size() ? nodes[shell].hostname : "", std::move(window)});
}

void SlowWatch::judge() {
  if (host_.ending()) return;
  for (const doctor::SlowFinding& each : finder_.add(std::exchange(come_, {}))) tell(each);
}

void SlowWatch::tell(const doctor::SlowFinding& finding) {
  plugin::Call call("job.slow");
  call.in = finding.json(option_.word);
  if (Result<int> called = host_.stack().call(call); !called)
    host_.log().log(Level::warn, "doctor", "{}", called.error().message);
  plugin::TaskOutput* output = host_.task_output();
  if (output != nullptr && output->takes_events()) return output->put_event("slow", call.in);
  print_report(host_, fmt::format("nacre: {}\n", finding.text(option_.word)));
}

}  // namespace nacre::plugins
