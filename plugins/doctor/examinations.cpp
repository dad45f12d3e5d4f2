// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/examinations.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "event/clock.hpp"
#include "plugin/questions.hpp"

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

// What is not sent counts as not answered: the leader asks more than it takes.
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
  own.examined = own.looks->look_again(own.order.interval);
  own.ras.emplace(host_);
  own.ras->start([this, number] { answer_if_ready(number); });
  own.dumps.emplace(host_);  // not before: those that write a dump seem to get on
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

// First they are told, then they are not waited for any more.
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
  std::move(found.from_all).put_into(examination, [this](std::uint32_t shell) { return host_of_shell(shell); });
  examination.absent = absent(late);
  for (const auto& [record, ranks] : host_.outcomes().classes()) {
    bool well = record.kind() == exits::Record::Kind::ended && !host_.exit_policy().is_failure(record);
    (well ? examination.ended_well : examination.ended_badly).insert(ranks);
  }
  examination.host_of = [this](std::uint32_t rank) {
    auto shell = host_.job().taskmap.node_of(rank);
    return shell ? host_of_shell(*shell) : std::string();
  };
  out.verdicts = doctor::verdicts(examination);
  if (!found.order.only_silence) {
    last_look_ = json_of(out, kMostKept);
    last_look_["time"] = event::wall_clock();
  }
  return out;
}

std::string Examinations::host_of_shell(std::uint32_t shell) const {
  const auto& nodes = host_.job().resources.nodes;
  return shell < nodes.size() ? nodes[shell].hostname : "";
}

std::vector<doctor::Absent> Examinations::absent(const value::Idset& late) const {
  std::vector<doctor::Absent> out;
  auto add = [&](std::uint32_t shell, bool is_lost) {
    value::Idset ranks = host_.job().taskmap.ranks_on(shell) - host_.outcomes().ranks();
    if (is_lost && ranks.empty()) return;
    out.push_back({shell, host_of_shell(shell), std::move(ranks), is_lost});
  };
  for (std::uint32_t shell : late.ids()) add(shell, false);
  for (std::uint32_t shell : open_.gone().ids()) add(shell, true);
  return out;
}

}  // namespace nacre::plugins
