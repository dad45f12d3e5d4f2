// SPDX-License-Identifier: Apache-2.0
//
// Orders to shrink and to grow, as the leader's half of core/shell_shrink.cpp and shell_grow.cpp carries them out.
#include <algorithm>

#include <fmt/format.h>

#include "job/leavers.hpp"
#include "job_leader.hpp"
#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr Time kMostAfterGrace = 12 * kSecond;  // until shells that leave are not waited for
constexpr Time kMostOfferTime = 10 * kSecond;
constexpr std::uint64_t kGrowWait = 3000;  // milliseconds

}  // namespace

// ---- shrinks ---------------------------------------------------------------------------------------

void JobLeader::shrink(const value::ShrinkOrder& order, const Done& done) {
  if (job_over_ || shell_.ending().is_ending() || !shell_.group().has_started()) return done(true);
  auto shells = job::leavers(order, elastic_.replica().job(), elastic_.replica().roster().gone(), shrinks_.left());
  if (!shells) return done(true);
  Idset fresh;
  auto number = shrinks_.open(*shells, fresh);
  shrinking_.emplace(number, done);
  if (fresh.empty()) return;
  double grace = order.grace.value_or(static_cast<double>(kGrace.count()) / 1e6);
  shell_.group().announce("shell.shrink", dump_json({{"shells", fresh.str()}, {"signal", 15}, {"grace", grace}}));
  shell_.process().later(Time(static_cast<std::int64_t>(grace * 1e6)) + kMostAfterGrace, [this, number] {
    shrinks_.overdue(number);
    settle_shrinks();
  });
}

void JobLeader::ready_to_leave(Id shell) {
  shrinks_.ready(shell);
  settle_shrinks();
}

void JobLeader::lost_leaving(Id shell) {
  if (!shrinks_.is_leaving(shell)) return;
  shrinks_.lost(shell);
  settle_shrinks();
}

void JobLeader::settle_shrinks() {
  while (auto shells = shrinks_.take_ready()) {
    request(Shrink{*shells}, [this, all = *shells](const Entry* entry) {
      const auto* end = entry == nullptr ? nullptr : std::get_if<Campaign>(&entry->body);
      value::Shrunk shrunk{{}, all};  // else none of them is of the job any more
      if (end != nullptr) shrunk = {end->done, end->unconfirmed};
      if (end == nullptr) elastic_.note_left(all - elastic_.replica().roster().left());
      shrinks_.ended(shrunk);
      settle_shrinks();
    });
  }
  while (auto ended = shrinks_.take_ended()) {
    auto order = shrinking_.extract(ended->first);
    if (order && order.mapped()) order.mapped()(false);
  }
}

void JobLeader::job_over() {
  job_over_ = true;
  for (auto& [number, done] : std::exchange(shrinking_, {})) {
    if (done) done(true);
  }
  for (const Restart& each : std::exchange(restarting_, {})) shell_.process().witness().answered(each.number, true);
}

// ---- grows: an order ---------------------------------------------------------------------------------

void JobLeader::order_grow(std::size_t number, const Order& order) {
  if (stopped_ || shell_.ending().is_ending() || !shell_.group().has_started())
    return shell_.process().witness().answered(number, true);
  Growing grow;
  grow.number = number;
  grow.all = order.all;
  grow.count = order.count;
  queue_.push_back(grow);
  begin_next();
}

void JobLeader::begin_next() {
  while (!open_ && !queue_.empty()) {
    open_ = queue_.front();
    queue_.pop_front();
    begin();
  }
}

void JobLeader::begin() {
  const Id first = open_->first = elastic_.replica().job().shells();
  const Idset ranks = asked();
  request(overlay::Grow{ranks, kGrowWait}, [this, first](const Entry* entry) {
    if (is_open(first)) came(entry);
  });
  for (Id rank : ranks.ids()) {
    if (is_open(first)) shell_.process().witness().grows(rank, elastic_.replica().growth());
  }
}

void JobLeader::start_failed(Id shell) {
  if (open_ && asked().contains(shell)) open_->failed.insert(shell);
  shell_.process().on_node([shell](Node& node) { node.suspect(shell); });
}

// ---- grows: those that come ----------------------------------------------------------------------------

void JobLeader::came(const Entry* entry) {
  const auto* end = entry == nullptr ? nullptr : std::get_if<Campaign>(&entry->body);
  open_->come = end != nullptr ? end->done : Idset();
  fail(asked() - *open_->come);
  shell_.process().later(kMostOfferTime, [this, first = open_->first] {
    if (!is_open(first) || open_->is_sent) return;
    fail(*open_->come - open_->offers);
    send_growth();
  });
  look_for_offers();
}

void JobLeader::fail(const Idset& shells) {
  open_->failed = open_->failed | shells;
  for (Id shell : shells.ids()) shell_.process().witness().dismisses(shell);
}

void JobLeader::look_for_offers() {
  if (!open_ || !open_->come || open_->is_sent) return;
  if ((*open_->come - open_->failed - open_->offers).empty()) send_growth();
}

// Those that have not come are named, too: ranks have no gaps.
void JobLeader::send_growth() {
  open_->is_sent = true;
  elastic::Growth growth;
  for (Id rank : asked().ids()) {
    bool has_come = (*open_->come & open_->offers).contains(rank) && !open_->failed.contains(rank);
    Idset cores = has_come ? Idset::range(0, 3) : Idset();
    growth.shells.push_back({rank, fmt::format("n{}", rank), cores, {}, has_come});
  }
  shell_.group().announce(elastic::kGrownTopic, dump_json(growth.json()));
}

void JobLeader::lost_newcomer(Id shell) {
  if (!open_ || !asked().contains(shell) || open_->ready.contains(shell)) return;
  open_->failed.insert(shell);
  look_for_offers();
  settle_grow();
}

void JobLeader::announced(const std::string& topic, const Json& what) {
  if (topic == "shell.restart-refused") return refused(Idset::parse(what["ranks"].get<std::string>()).value());
  if (topic != elastic::kOfferTopic && topic != elastic::kReadyTopic) return;
  auto rank = what["shell"].get<Id>();
  bool is_open = open_ && asked().contains(rank);
  if (topic == elastic::kOfferTopic) {
    if (is_open) open_->offers.insert(rank);
    return look_for_offers();
  }
  bool has_failed = what.contains("error");
  if (is_open) (has_failed ? open_->failed : open_->ready).insert(rank);
  if (has_failed) take_out(Idset::range(rank, rank), nullptr);
  settle_grow();
}

void JobLeader::grown(const Idset& come) {
  if (!open_) return;
  open_->is_announced = true;
  shell_.group().announce(elastic::kStateTopic, dump_json(state()));
  // They are of the job, and nobody knows what they have.
  if (Idset unknown = *open_->come - come - elastic_.replica().roster().gone(); !unknown.empty())
    take_out(unknown, nullptr);
  if (stopped_) take_out(come - elastic_.replica().roster().gone(), nullptr);
  settle_grow();
}

Json JobLeader::state() const {
  Json out = elastic_.replica().state();
  if (shell_.ending().is_ending()) out["ended"] = "";
  return out;
}

// ---- grows: the end of an order --------------------------------------------------------------------------

void JobLeader::settle_grow() {
  bool waits = !open_ || !open_->is_announced || !(*open_->come - open_->ready - open_->failed).empty();
  if (waits || open_->is_undone) return;
  Idset back = open_->all && !open_->failed.empty() ? open_->ready : Idset();
  if (back.empty()) return end_grow((open_->ready - open_->failed).empty());
  open_->is_undone = true;
  open_->failed = open_->failed | back;
  take_out(back, [this, first = open_->first](bool /*is_error*/) {
    if (is_open(first)) end_grow(true);
  });
}

void JobLeader::end_grow(bool is_error) {
  Growing over = *std::exchange(open_, std::nullopt);
  if (!over.is_answered) shell_.process().witness().answered(over.number, is_error);
  begin_next();
}

void JobLeader::take_out(const Idset& shells, const Done& done) {
  value::ShrinkOrder order;
  order.shells = shells;
  shrink(
      order, done ? done : [](bool /*is_error*/) {});
}

void JobLeader::tasks_are_over() {
  const job::Job& job = elastic_.replica().job();
  bool some_wait =
      job.spares > 0 || elastic_.replica().changes().takes_any || elastic_.replica().changes().to_spare;
  for (Id shell = 0; shell < job.nodes() && elastic_.replica().changes().restarts; ++shell)
    some_wait = some_wait || job.taskmap.tasks_on(shell) == 0;
  if (some_wait) shell_.group().announce("shell.tasks-over", "");
  if (std::exchange(stopped_, true)) return;
  for (const Growing& each : std::exchange(queue_, {})) shell_.process().witness().answered(each.number, true);
  if (!open_) return;
  if (!std::exchange(open_->is_answered, true)) shell_.process().witness().answered(open_->number, true);
  if (!open_->come) {
    for (Id rank : asked().ids()) {
      shell_.process().witness().dismisses(rank);
      shell_.process().on_node([rank](Node& node) { node.suspect(rank); });
      if (!open_) return;
    }
  } else if (open_->is_announced) {
    take_out(*open_->come - open_->ready - open_->failed, nullptr);
  }
}

}  // namespace nacre::sim
