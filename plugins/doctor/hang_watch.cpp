// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/hang_watch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "doctor/findings.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "job/options.hpp"
#include "plugins/exit_report/report_file.hpp"

namespace nacre::plugins {
namespace {

constexpr double kLooks = 4;        // in the time
constexpr double kMostPeriod = 60;  // seconds from one look to the next
constexpr int kCode = 124;          // of a job that is ended, as of one that is over its time limit

// The first verdict, if it is that some tasks hang, or keep the others waiting; null: it blames none.
const doctor::Verdict* blames(const std::vector<doctor::Verdict>& verdicts) {
  using Kind = doctor::Verdict::Kind;
  if (verdicts.empty() || verdicts.front().ranks.empty()) return nullptr;
  switch (verdicts.front().kind) {
    case Kind::no_answer:
    case Kind::missing:
    case Kind::collective:
    case Kind::stuck:
    case Kind::stopped:
    case Kind::pipe:
    case Kind::deadlock:
    case Kind::ended:
    case Kind::spins: return &verdicts.front();
    case Kind::input:
    case Kind::slow_node:
    case Kind::several:
    case Kind::works:
    case Kind::alike:
    case Kind::fine: break;
  }
  return nullptr;
}

}  // namespace

Result<std::optional<HangWatchOption>> HangWatchOption::read(const job::Options& options) {
  auto option = options.at("hang-watch");
  if (!option || option->json() == "off" || option->json() == "none") return std::nullopt;
  HangWatchOption out;
  std::string text = option->json().is_string() ? option->json().get<std::string>() : dump_json(option->json());
  std::size_t comma = text.find(',');
  out.kills = comma != std::string::npos;
  auto time = value::Duration::parse(text.substr(0, comma));
  bool is_wrong = !time || time->is_infinite() || time->seconds() < kLeast;
  if (is_wrong || (out.kills && text.substr(comma + 1) != "kill"))
    return option->expected(fmt::format("DURATION or DURATION,kill, of at least {:g} s", kLeast));
  out.time = *time;
  return out;
}

Result<void> HangWatch::start() {
  active_ = looked_ = event::clock_now();
  double period = std::min(option_.time.seconds() / kLooks, kMostPeriod);
  timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
  timer_->unref();
  timer_->start(event::Seconds(period), event::Seconds(period));
  return {};
}

void HangWatch::stop() {
  if (!host_.job().leads()) timer_.reset();
}

void HangWatch::all_ended() {
  timer_.reset();
  is_over_ = true;
}

double HangWatch::silent() {
  std::map<std::uint32_t, Mark> marks;
  event::Seconds now = event::clock_now();
  double interval = (now - std::exchange(looked_, now)).count();
  auto* output = host_.task_output();
  bool has_moved = false;
  for (const auto& task : host_.tasks()) {
    Mark& mark = marks[task->rank()];
    mark.state = task->state();
    if (output != nullptr) {
      auto written = output->written(task->rank());
      mark.written = written.out.value_or(0) + written.err.value_or(0);
    }
    if (task->state() != task::State::running) continue;
    std::vector<pid_t> pids = event::descendants_of(task->pid(), event::best_lookup());
    mark.processes = {pids.begin(), pids.end()};
    mark.processes.insert(task->pid());
    has_moved = moved(mark, interval) || has_moved;
  }
  std::erase_if(looks_, [&](const auto& look) {
    return std::none_of(marks.begin(), marks.end(),
                        [&](const auto& mark) { return mark.second.processes.contains(look.first); });
  });
  if (std::exchange(marks_, marks) != marks || has_moved) active_ = now;
  return (now - active_).count();
}

// Since the last look at them.
bool HangWatch::moved(const Mark& mark, double interval) {
  bool out = false;
  for (pid_t pid : mark.processes) {
    auto look = look_at(pid);
    if (!look) continue;
    auto earlier = looks_.find(pid);
    if (earlier != looks_.end() && earlier->second.started == look->started)
      out = change_of(earlier->second, *look, interval).moves || out;
    looks_.insert_or_assign(pid, *std::move(look));
  }
  return out;
}

void HangWatch::look() {
  double here = silent();
  bool is_due = here >= option_.time.seconds() * (1 << reports_);
  if (host_.job().leads() && is_due && !asks_ && reports_ < kMostReports && !host_.ending()) ask();
}

// The other shells may know better.
void HangWatch::ask() {
  ExaminationOrder order;
  order.only_silence = true;
  asks_ = true;
  Result<void> asked = examinations_.examine(order, [this](const Examined& examined) {
    asks_ = false;
    bool is_due = std::min(examined.silent, silent()) >= option_.time.seconds() * (1 << reports_);
    if (is_due && !is_over_ && !host_.ending()) examine();
  });
  if (!asked) asks_ = false;
}

void HangWatch::examine() {
  ExaminationOrder order;
  order.stacks = StackWay::automatic;
  asks_ = true;
  Result<void> begun = examinations_.examine(order, [this](const Examined& examined) {
    asks_ = false;
    if (!is_over_ && !host_.ending()) report(examined);
  });
  if (!begun) asks_ = false;
}

// A job whose tasks wait for what somebody types does not hang.
void HangWatch::report(const Examined& examined) {
  bool waits = std::any_of(examined.verdicts.begin(), examined.verdicts.end(),
                           [](const doctor::Verdict& each) { return each.kind == doctor::Verdict::Kind::input; });
  if (waits) return;
  std::string time = value::Duration::of_seconds(option_.time.seconds() * (1 << reports_)).str();
  ++reports_;
  Json found = examined.examination.json();
  for (const doctor::TaskGroup& each : examined.examination.groups) found["groups"].push_back(each.json());
  for (const doctor::Verdict& each : examined.verdicts) found["verdicts"].push_back(each.json());
  plugin::Call call("doctor.hang");
  call.in = {{"time", time}, {"found", found}};
  if (Result<int> called = host_.stack().call(call); !called)
    host_.log().log(Level::warn, "doctor", "{}", called.error().message);
  plugin::TaskOutput* output = host_.task_output();
  if (output != nullptr && output->takes_events()) {
    output->put_event("hang", call.in);
  } else {
    print_report(host_, fmt::format("nacre: no task of the job has done anything that can be seen for {}\n{}", time,
                                    doctor::text_of(examined.examination, examined.verdicts, {})));
  }
  if (!option_.kills) return;
  plugin::RaisedException end{"hang-watch", 0,
                              fmt::format("hang-watch: no task has done anything that can be seen for {}", time),
                              value::WaitStatus::exited(kCode)};
  if (const doctor::Verdict* one = blames(examined.verdicts)) {
    end.message += "; " + one->text;
    end.task = exits::TaskEnd{*one->ranks.first(), exits::Record::victim({})};
  }
  host_.raise(end);
}

}  // namespace nacre::plugins
