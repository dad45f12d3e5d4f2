// SPDX-License-Identifier: Apache-2.0
//
// doctor: finds out what the tasks of all shells do at the moment, when somebody asks for it (`nacre doctor`, by
// the plugin control), and what follows from it: who hangs, and where.
//
// hang-watch=DURATION[,restart|,kill]: it examines the tasks by itself, see doctor.hpp.
//
// slow-watch=DURATION[,...]: which hosts and tasks are slower than the others, see doctor.hpp.
//
// doctor.trace=on: processes that the shell starts may trace its tasks even if Yama lets only ancestors do that.
#include "plugins/doctor/doctor.hpp"

#include "base/text.hpp"
#include "doctor/findings.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "plugin/events.hpp"
#include "plugins/builtins.hpp"
#include "plugins/exit_report/report_file.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostUnsent = 4096;                 // records
constexpr std::size_t kMostKept = std::size_t{64} << 10;  // bytes of groups in what was found last

}  // namespace

void Examinations::serve() {
  asked_ = plugin::serve_questions(
      host_, records_, kTopic, [this](bulk::Id origin, std::string_view bytes) { take(origin, bytes); },
      [this](std::string_view question) { asked(question); });
}

// ---- in each shell -----------------------------------------------------------

// An answer that is not sent counts as missing: the leader accepts fewer than it asks for.
void Examinations::asked(std::string_view bytes) {
  auto json = parse_json(bytes);
  if (!json || !member_of(*json, "number").is_number_unsigned()) return;
  auto order = ExaminationOrder::parse(json->value("order", Json::object()));
  if (!order || records_.waiting() > kMostUnsent || own_.size() >= kMostOpen) return;
  auto number = json->at("number").get<std::uint64_t>();
  if (order->only_silence) {
    std::optional<double> silent;
    if (silence_) silent = silence_();
    return records_.put(doctor::AnswerPart{number, true, {}, {}, silent}.text());
  }
  records_.put(doctor::AnswerPart{number, false, {}, {}, std::nullopt}.text());
  Result<void> begun = look(number, *order, [this, number](Answer answer) {
    for (std::string& each : doctor::answer_of(number, std::move(answer.groups), std::move(answer.notes),
                                               std::move(answer.collectives), std::move(answer.ras)))
      records_.put(std::move(each));
  });
  if (!begun) host_.log().log(Level::warn, "doctor", "{}", begun.error().message);
}

Result<void> Examinations::look(std::uint64_t number, const ExaminationOrder& order, decltype(Own::done) done) {
  auto timer = TRY(event::Timer::create(host_.loop(), [this, number] { look_again(number); }));
  Own& own = own_[number];
  own.order = order;
  own.done = std::move(done);
  own.looks.emplace(host_);
  own.timer = std::move(timer);
  own.timer->unref();
  own.timer->start(event::Seconds(order.interval));
  return {};
}

void Examinations::look_again(std::uint64_t number) {
  Own& own = own_.at(number);
  own.examined = own.looks->look_again();
  own.ras.emplace(host_);
  own.ras->start([this, number] { answer_if_ready(number); });
  own.dumps.emplace(host_);  // not earlier: tasks that write a dump seem to get on
  own.dumps->start([this, number] { answer_if_ready(number); });
  if (own.order.stacks == StackWay::none) return complete(number, {}, {});
  take_stacks(number, own);
}

// A process that is stuck cannot be traced, and one that is traced has its tracer already.
void Examinations::take_stacks(std::uint64_t number, Own& own) {
  std::vector<StackTaker::Target> targets;
  for (const TaskLooks::Examined& each : own.examined) {
    doctor::Doing doing = each.group.fact.doing;
    bool is_free =
        doing == doctor::Doing::busy || doing == doctor::Doing::sleeps || doing == doctor::Doing::stopped;
    if (each.pid != 0 && is_free)
      targets.push_back(
          {each.rank, each.pid, each.tid, each.waiting, each.was_stopped, doing == doctor::Doing::busy});
  }
  own.stacks.emplace(host_, own.order.stacks);
  own.stacks->start(std::move(targets),
                    [this, number](const auto& stacks, const auto& notes) { complete(number, stacks, notes); });
}

void Examinations::complete(std::uint64_t number, const StackTaker::Stacks& stacks,
                            const std::set<std::string>& notes) {
  auto at = own_.find(number);
  if (at == own_.end()) return;
  Own& own = at->second;
  if (own.order.stacks != StackWay::none && traced_) traced_();
  std::vector<doctor::TaskGroup>& groups = own.answer.groups;
  for (TaskLooks::Examined& each : own.examined) {
    if (auto found = stacks.find(each.rank); found != stacks.end()) {
      each.group.fact.stack = found->second.stack;
      each.group.fact.others = found->second.others;
      each.group.fact.steps = found->second.steps;
      each.group.fact.holds_lock = found->second.holds_lock;
      if (each.group.path.empty()) each.group.path = found->second.place;
    }
    groups.push_back(std::move(each.group));
  }
  if (!own.order.by_rank) groups = doctor::folded(std::move(groups));
  own.answer.notes = own.looks->notes();
  own.answer.notes.insert(notes.begin(), notes.end());
  own.is_examined = true;
  answer_if_ready(number);
}

void Examinations::answer_if_ready(std::uint64_t number) {
  auto at = own_.find(number);
  if (at == own_.end() || !at->second.is_examined || !at->second.dumps->is_done() || !at->second.ras->is_done())
    return;
  auto taken = own_.extract(at);
  Own& own = taken.mapped();
  if ((own.dumps->has_asked() || own.ras->has_asked()) && traced_) traced_();
  own.answer.ras = own.ras->findings();
  own.answer.notes.insert(own.ras->notes().begin(), own.ras->notes().end());
  own.answer.collectives = doctor::folded(own.dumps->logs());
  own.answer.notes.insert(own.dumps->notes().begin(), own.dumps->notes().end());
  own.done(std::move(own.answer));
}

// ---- the leader --------------------------------------------------------------

Result<void> Examinations::examine(const ExaminationOrder& order, std::function<void(Examined)> done,
                                   Silent silent) {
  value::Idset shells = open_.others();
  shells.insert(host_.job().shell_rank);
  auto text = [&order](std::uint64_t number) { return dump_json({{"number", number}, {"order", order.json()}}); };
  auto finish = [this, done = std::move(done)](plugin::OpenQuestions<Found>::Answered all) {
    own_.erase(all.number);
    attendance_.erase(all.number);
    done(examined(std::move(all.answer), all.late));
  };
  Found begun;
  begun.order = order;
  std::uint64_t number = TRY(
      open_.ask({std::move(shells), event::Seconds(order.most_time()), std::move(begun), text, std::move(finish)}));
  Result<void> looks = begin(number, order);
  if (looks && !order.only_silence && !open_.awaited(number).empty())
    looks = watch_silent(number, order, std::move(silent));
  if (!looks) {
    open_.drop(number);
    attendance_.erase(number);
  }
  return looks;
}

// ---- shells that say nothing -------------------------------------------------

Result<void> Examinations::watch_silent(std::uint64_t number, const ExaminationOrder& order, Silent silent) {
  auto timer = TRY(event::Timer::create(host_.loop(), [this, number] { silence_is_over(number); }));
  Attendance& of = attendance_[number];
  of.order = order;
  of.tell = std::move(silent);
  of.at_it.insert(host_.job().shell_rank);
  of.timer = std::move(timer);
  of.timer->unref();
  of.timer->start_grace(event::Seconds(ExaminationOrder::kMostAnswerTime));
  return {};
}

// At first they are reported, and later they are not waited for any more.
void Examinations::silence_is_over(std::uint64_t number) {
  Attendance& of = attendance_.at(number);
  if (!std::exchange(of.is_told, true)) {
    of.timer->start_grace(event::Seconds(of.order.most_silent_time() - ExaminationOrder::kMostAnswerTime));
    value::Idset silent = silent_shells(number);
    if (of.tell && !silent.empty()) of.tell(absent(silent));
    return;
  }
  of.is_over = true;
  leave_silent(number);
}

void Examinations::leave_silent(std::uint64_t number) {
  auto of = attendance_.find(number);
  if (of == attendance_.end() || !of->second.is_over) return;
  value::Idset awaited = open_.awaited(number);
  if (!awaited.empty() && (awaited - silent_shells(number)).empty()) open_.finish(number);
}

value::Idset Examinations::silent_shells(std::uint64_t number) const {
  value::Idset out = open_.awaited(number);
  for (std::uint32_t each : attendance_.at(number).at_it) out.remove(each);
  return out;
}

// ---- what has come -----------------------------------------------------------

// The leader's own part.
Result<void> Examinations::begin(std::uint64_t number, const ExaminationOrder& order) {
  const std::uint32_t own = host_.job().shell_rank;
  if (order.only_silence) {
    if (silence_) open_.find(number, own)->from_all.add(own, {number, true, {}, {}, silence_()});
    open_.complete(number, own);
    return {};
  }
  return look(number, order, [this, number, own](Answer answer) {
    Found* found = open_.find(number, own);
    if (found == nullptr) return;
    found->from_all.add(own, {number, true, std::move(answer.groups), std::move(answer.notes), std::nullopt,
                              std::move(answer.collectives), std::move(answer.ras)});
    open_.complete(number, own);
    leave_silent(number);
  });
}

void Examinations::take(std::uint32_t shell, std::string_view bytes) {
  auto part = reader_.read(bytes);
  Found* found = part ? open_.find(part->number, shell) : nullptr;
  if (found == nullptr) return;
  std::uint64_t number = part->number;
  bool is_last = part->is_last;
  found->from_all.add(shell, *std::move(part));
  if (auto of = attendance_.find(number); of != attendance_.end()) of->second.at_it.insert(shell);
  if (is_last) open_.complete(number, shell);
  leave_silent(number);
}

Examined Examinations::examined(Found found, const value::Idset& late) {
  Examined out;
  out.silent = found.from_all.silent();
  doctor::Examination& examination = out.examination;
  examination.tasks = host_.job().tasks();
  examination.interval = found.order.interval;
  if (found.order.by_rank) {
    out.rows = found.from_all.groups();
    std::sort(out.rows.begin(), out.rows.end(),
              [](const auto& a, const auto& b) { return *a.ranks.first() < *b.ranks.first(); });
  }
  std::move(found.from_all).put_into(examination, [this](std::uint32_t shell) {
    return host_.job().hostname_of(shell);
  });
  examination.absent = absent(late);
  for (const auto& [record, ranks] : host_.outcomes().classes()) {
    bool well = record.kind() == exits::Record::Kind::ended && !host_.exit_policy().is_failure(record);
    (well ? examination.ended_well : examination.ended_badly).insert(ranks);
  }
  examination.host_of = [this](std::uint32_t rank) {
    auto shell = host_.job().taskmap.node_of(rank);
    return shell ? host_.job().hostname_of(*shell) : std::string();
  };
  out.verdicts = doctor::verdicts(examination);
  if (!found.order.only_silence) {
    last_look_ = json_of(out, kMostKept);
    last_look_["time"] = event::wall_clock();
  }
  return out;
}

std::vector<doctor::Absent> Examinations::absent(const value::Idset& late) const {
  std::vector<doctor::Absent> out;
  auto add = [&](std::uint32_t shell, bool is_lost) {
    value::Idset ranks = host_.job().taskmap.ranks_on(shell) - host_.outcomes().ranks();
    if (is_lost && ranks.empty()) return;
    out.push_back({shell, host_.job().hostname_of(shell), std::move(ranks), is_lost});
  };
  for (std::uint32_t shell : late.ids()) add(shell, false);
  for (std::uint32_t shell : open_.gone().ids()) add(shell, true);
  return out;
}

// To all shells: the tasks of these ranks are killed, unless there have been other restarts meanwhile.
struct EndOrder {
  std::uint64_t restarts = 0;
  value::Idset ranks;
};

void fields(auto& io, wire::Of<EndOrder> auto& m) {
  io.has("restarts", m.restarts);
  io.has("ranks", m.ranks);
}

namespace {

constexpr double kLooks = 4;        // in the time
constexpr double kMostPeriod = 60;  // seconds from one look to the next
constexpr int kCode = 124;          // of a job that is ended, as of one that is over its time limit

// The first verdict, if it says that some tasks hang, or keep the others waiting; null: it blames no task. A task
// that only wakes now and then counts as one that hangs, as no task has got on for long.
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
    case Kind::spins:
    case Kind::works: return &verdicts.front();
    case Kind::input:
    case Kind::slow_node:
    case Kind::several:
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
  const std::string then = comma == std::string::npos ? "" : text.substr(comma);
  auto time = value::Duration::parse(text.substr(0, comma));
  bool is_wrong = !time || time->is_infinite() || time->seconds() < kLeast;
  if (is_wrong || (!then.empty() && then != ",kill" && then != ",restart"))
    return option->expected(fmt::format("DURATION, perhaps with ,restart or ,kill, of at least {:g} s", kLeast));
  out.time = *time;
  out.then = then.empty() ? Then::nothing : then == ",kill" ? Then::kill : Then::restart;
  if (out.then != Then::restart) return out;
  using When = job::RestartOption::When;
  auto restart = job::RestartOption::read(options);
  if (!restart || (restart->when != When::on_failure && restart->when != When::always))
    return option->error(
        "tasks that are killed start again by the option restart only: give --restart=on-failure too");
  return out;
}

void HangWatch::serve() {
  if (option_.then != HangWatchOption::Then::restart) return;
  ordered_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kEndTopic) end_own(bytes);
  });
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

// Whether the task has moved since the last look at it.
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

// Asks the other shells, which may have seen something.
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

namespace {

// Whether some tasks run and none is about to start again: each of the others has ended for good, or is on a shell
// that has not answered.
bool are_all_there(const doctor::Examination& found, value::Idset all) {
  value::Idset running;
  for (const doctor::TaskGroup& each : found.groups) {
    if (each.fact.doing != doctor::Doing::over && each.fact.doing != doctor::Doing::not_started)
      running.insert(each.ranks);
  }
  for (const doctor::Absent& each : found.absent) all = all - each.ranks;
  return !running.empty() && (all - running - found.ended_well - found.ended_badly).empty();
}

}  // namespace

// A job does not hang if its tasks wait for input that somebody types, or for their start.
void HangWatch::report(const Examined& examined) {
  if (!are_all_there(examined.examination, host_.job().all_ranks())) {
    active_ = event::clock_now();
    return;
  }
  bool waits = std::any_of(examined.verdicts.begin(), examined.verdicts.end(),
                           [](const doctor::Verdict& each) { return each.kind == doctor::Verdict::Kind::input; });
  if (waits) return;
  std::string time = value::Duration::of_seconds(option_.time.seconds() * (1 << reports_)).str();
  ++reports_;
  Json found = examined.examination.json();
  for (const doctor::TaskGroup& each : examined.examination.groups) found["groups"].push_back(each.json());
  for (const doctor::Verdict& each : examined.verdicts) found["verdicts"].push_back(each.json());
  const doctor::Verdict* blamed = blames(examined.verdicts);
  const std::string why = fmt::format("no task has done anything that can be seen for {}{}", time,
                                      blamed != nullptr ? "; " + blamed->text : "");
  const bool restarts = option_.then == HangWatchOption::Then::restart;
  plugin::Call call("doctor.hang");
  call.in = {{"time", time}, {"found", found}, {"why", why}};
  if (restarts) call.in["killed"] = to_kill(blamed).str();
  if (Result<int> called = host_.stack().call(call); !called)
    host_.log().log(Level::warn, "doctor", "{}", called.error().message);
  plugin::TaskOutput* output = host_.task_output();
  if (output != nullptr && output->takes_events()) {
    output->put_event("hang", call.in);
  } else {
    print_report(host_, fmt::format("nacre: no task of the job has done anything that can be seen for {}\n{}", time,
                                    doctor::text_of(examined.examination, examined.verdicts, {})));
  }
  if (restarts) end_tasks(to_kill(blamed), why);
  if (option_.then != HangWatchOption::Then::kill) return;
  plugin::RaisedException end{"hang-watch", 0, why, value::WaitStatus::exited(kCode)};
  if (blamed != nullptr) end.task = exits::TaskEnd{*blamed->ranks.first(), exits::Record::victim({})};
  host_.raise(end);
}

// All ranks, if nobody is blamed, or if those that are cannot be killed: they have ended, or their shell does not
// answer.
value::Idset HangWatch::to_kill(const doctor::Verdict* blamed) const {
  using Kind = doctor::Verdict::Kind;
  const bool may_be = blamed != nullptr && blamed->kind != Kind::ended && blamed->kind != Kind::no_answer;
  return may_be ? blamed->ranks : host_.job().all_ranks();
}

// Leader.
void HangWatch::end_tasks(const value::Idset& ranks, const std::string& why) {
  host_.log().log(Level::warn, "hang-watch", "{}: {} killed, so that restart starts {} again", why,
                  ranks.size() == 1                  ? fmt::format("rank {} is", ranks.str())
                  : ranks == host_.job().all_ranks() ? "all tasks are"
                                                     : fmt::format("ranks {} are", ranks.short_str()),
                  ranks.size() == 1 ? "it" : "them");
  Result<void> sent = host_.announce(kEndTopic, wire::to_text(EndOrder{host_.job().restarts, ranks}));
  if (!sent) host_.log().log(Level::warn, "hang-watch", "{}", sent.error().message);
  reports_ = 0;
  active_ = event::clock_now();
}

// A start since the order has other tasks.
void HangWatch::end_own(std::string_view order) const {
  auto read = wire::from_text<EndOrder>(order);
  if (!read || read->restarts != host_.job().restarts) return;
  for (const auto& task : host_.tasks()) {
    if (task->state() == task::State::running && read->ranks.contains(task->rank()))
      static_cast<void>(task->kill(SIGKILL));
  }
}

namespace {

constexpr double kForOthers = 0.25;   // of a window: how long the leader waits for windows of other shells
constexpr double kMostForOthers = 5;  // seconds; the most for that
constexpr double kLateGrowth = 1.5;   // times that from one growth to the next: after it the task has become slower
constexpr std::size_t kMostUnsentWindows = 16;  // windows: a leader that takes none for long gets no more
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

// The count at the last growth, as a window may end anywhere between two steps.
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

// Adds the GPUs as the option usage-gpu has last seen them.
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

// A task that was started elsewhere meanwhile does not count for this shell any more.
void SlowWatch::keep(std::uint32_t shell, doctor::PaceWindow window) {
  const job::Job& job = host_.job();
  std::erase_if(window.tasks,
                [&](const doctor::TaskPace& each) { return job.taskmap.node_of(each.rank) != shell; });
  come_.insert_or_assign(shell, doctor::SlowFinder::Host{job.hostname_of(shell), std::move(window)});
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

namespace {

class Doctor final : public plugin::Plugin, public Examiner {
 public:
  explicit Doctor(plugin::Host& host) : Plugin("doctor"), host_(host), examinations_(host) {
    on("shell.init", [this] { return read(); });
  }

  Result<void> examine(const ExaminationOrder& order, std::function<void(Examined)> done,
                       std::function<void(std::vector<doctor::Absent>)> silent) override {
    return examinations_.examine(order, std::move(done), std::move(silent));
  }

  [[nodiscard]] Json last_look() const override { return examinations_.last_look(); }

 private:
  Result<void> read() {
    if (auto whole = host_.options().at(name())) CHECK_OK(whole->only_keys({"trace"}));
    if (host_.options().at("doctor.trace") && TRY(host_.options().flag("doctor.trace"))) {
      on("task.init", [this] { host_.current_task()->command().setup.traced_by_siblings = true; });
    }
    examinations_.serve();
    CHECK_OK(watch());
    CHECK_OK(watch_pace());
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { examinations_.lost(lost.shell); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) { examinations_.lost(left.shell); });
    return {};
  }

  Result<void> watch() {
    auto option = TRY(HangWatchOption::read(host_.options()));
    if (!option) return {};
    watch_.emplace(host_, examinations_, *option);
    watch_->serve();
    examinations_.when_silent([this] { return watch_->silent(); });
    examinations_.when_traced([this] { watch_->traced(); });
    on("shell.start", [this] { return watch_->start(); });
    on("shell.finish", [this] { watch_->stop(); });
    on("shell.tasks-complete", [this] { watch_->all_ended(); });
    return {};
  }

  Result<void> watch_pace() {
    auto option = TRY(job::SlowWatchOption::read(host_.options()));
    if (!option) return {};
    slow_.emplace(host_, *std::move(option));
    slow_->serve();
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { slow_->gone(lost.shell); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) { slow_->gone(left.shell); });
    on("shell.start", [this] { return slow_->start(); });
    on("shell.finish", [this] { slow_->stop(); });
    on("shell.tasks-complete", [this] { slow_->all_ended(); });
    return {};
  }

  plugin::Host& host_;
  Examinations examinations_;
  std::optional<HangWatch> watch_;
  std::optional<SlowWatch> slow_;
};

}  // namespace

PluginPtr make_doctor(plugin::Host& host) { return std::make_unique<Doctor>(host); }

}  // namespace nacre::plugins
