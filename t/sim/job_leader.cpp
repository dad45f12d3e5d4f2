// SPDX-License-Identifier: Apache-2.0
//
// How the leader has tasks start again: those of lost shells, all together, and by order.
#include "job_leader.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr std::uint64_t kMostQuestion = 2'000'000;  // microseconds that the other shells are asked for PMI

}  // namespace

void JobLeader::request(RequestBody body, const std::function<void(const Entry*)>& done) {
  if (auto number = shell_.group().request(std::move(body))) {
    requests_.emplace(*number, done);
  } else {
    done(nullptr);
  }
}

void JobLeader::answered(const Entry& entry) {
  auto found = requests_.extract(entry.request.number);
  if (found) found.mapped()(&entry);
}

void JobLeader::order(std::size_t number, const Order& order) {
  if (order.what == Order::What::restart) return order_restart(number, order.ids);
  if (order.what == Order::What::grow) return order_grow(number, order);
  value::ShrinkOrder what;
  what.shells = order.ids;
  what.grace = static_cast<double>(order.grace.count()) / 1e6;
  shrink(what, [this, number](bool is_error) { shell_.process().witness().answered(number, is_error); });
}

// ---- the ends of tasks ----------------------------------------------------------------------------

void JobLeader::expect(const Idset& ranks) {
  for (Id rank : ranks.ids()) expected_.expect(Idset::range(rank, rank), elastic_.replica().job().attempt_of(rank));
}

void JobLeader::reported(const group::Ended& ended) {
  for (const auto& [attempt, ranks] : elastic::Starts(elastic_.replica().job().tasks()).ranks(ended.tasks))
    note_ended(expected_.current(ranks, attempt), ended.record);
}

void JobLeader::note_ended(const Idset& ranks, const exits::Record& record) {
  Idset fresh = shell_.records().add(shell_.process().world().now, ranks, record);
  if (!fresh.empty()) refused(fresh);
}

// ---- a lost shell ---------------------------------------------------------------------------------

void JobLeader::lost(Id shell) {
  if (elastic_.replica().changes().replaces && !decides_losses_) return undecided_.insert(shell);
  decide_loss(shell);
}

void JobLeader::decide_losses() {
  decides_losses_ = true;
  for (Id shell : std::exchange(undecided_, {}).ids()) decide_loss(shell);
}

void JobLeader::decide_loss(Id shell) {
  if (elastic_.unfinished_on(shell).empty() || !elastic_.replica().changes().replaces ||
      shell_.ending().is_ending())
    return give_up(shell);
  open_losses_.insert(shell);
  Time asks(shell_.process().world().random.one_in(2) ? 0 : shell_.process().world().random.in(0, kMostQuestion));
  shell_.process().later(asks, [this, shell] { replace(shell); });
}

void JobLeader::give_up(Id shell) {
  const job::Job& job = elastic_.replica().job();
  bool is_left = job.taskmap.tasks_on(shell) == 0 && job.tasks_have_left(shell);
  Idset tasks = elastic_.unfinished_on(shell);
  bool ends = !shell_.process().plan().tolerant && !job.is_spare(shell) && !is_left &&
              !(tasks.empty() && elastic_.replica().changes().replaces);
  Idset fresh = tasks - shell_.records().all().ranks();
  if (!fresh.empty()) shell_.records().lose(shell_.process().world().now, fresh);
  refused(fresh);
  loss_closes(shell);
  exits::Cause cause{fmt::format("shell {} is lost", shell), std::nullopt, shell_.process().id()};
  if (!ends)
    return shell_.group().ask(
        group::statement_of(group::JobException{"node-failure", 2, cause.message, cause.code, 0}));
  shell_.process().witness().failed(shell_.process().id(), cause, true);
  shell_.ending().end_job(cause, "node-failure");
}

// What was asked of a start that does not count any more has had its answer.
void JobLeader::loss_closes(Id shell) {
  open_losses_.remove(shell);
  if (!open_losses_.empty()) return;
  for (const Message& each : std::exchange(unanswered_, {})) {
    const elastic::RestartEnd& end = each.ends.front();
    if (elastic_.replica().job().attempt_of(end.rank) == end.attempt) answer(each);
  }
  if (std::exchange(order_waits_, false)) answer_order();
}

// Much may have happened since the shell was lost.
void JobLeader::replace(Id from) {
  const job::Job& job = elastic_.replica().job();
  Idset ranks = elastic_.unfinished_on(from);
  if (ranks.empty() || shell_.ending().is_ending()) return give_up(from);
  bool takes_all =
      elastic_.replica().changes().restarts && elastic_.replica().changes().scope == job::RestartOption::Scope::job;
  if (takes_all && !why_not_whole().empty()) return give_up(from);
  std::vector<elastic::Replacements::Spare> spares;
  for (Id shell : job.spare_shells().ids()) {
    if (elastic_.replica().roster().stays(shell))
      spares.push_back({shell, {job.resources.nodes[shell].cores.size(), 0}});
  }
  std::vector<std::uint32_t> to;
  if (auto spare = replacements_.choose(spares, {ranks.size(), 0})) {
    to.assign(ranks.size(), *spare);
  } else if (elastic_.replica().changes().takes_any) {
    std::vector<elastic::Replacements::Other> others;
    for (Id i = 1; i <= job.shells(); ++i) {
      Id shell = i % job.shells();
      if (!elastic_.replica().roster().stays(shell)) continue;
      std::uint64_t tasks = elastic_.unfinished_on(shell).size();
      std::uint64_t room = job.resources.nodes[shell].cores.size();
      others.push_back({shell, tasks, room - std::min(room, tasks)});
    }
    if (auto spread = replacements_.spread(others, ranks.size())) to = *std::move(spread);
  }
  if (to.empty()) return give_up(from);
  std::map<std::pair<Id, std::uint32_t>, Idset> each;
  for (std::size_t i = 0; Id rank : ranks.ids()) each[{to[i++], job.attempt_of(rank) + 1}].insert(rank);
  elastic::Replacement what;
  for (const auto& [where, which] : each) {
    expected_.expect(which, where.second);
    what.moves.push_back({which, from, where.first, where.second});
  }
  if (takes_all) what.all = {job.restarts, 0, elastic_.restart().whole().delay()};
  shell_.group().announce("shell.replace", what.text());
}

void JobLeader::replaced(const std::vector<job::Move>& moves) {
  for (const job::Move& each : moves) replacements_.ordered(each.to, each.ranks.size());
}

// ---- all tasks together -----------------------------------------------------------------------------

void JobLeader::all_started() {
  all_started_ = true;
  for (const Message& each : std::exchange(unanswered_, {})) answer(each);
}

std::string JobLeader::why_not_whole() const {
  if (!shell_.records().all().ranks().empty()) return "a task has ended for good";
  for (Id shell = 1; shell < elastic_.replica().job().shells(); ++shell) {
    bool leaves = elastic_.replica().roster().leaves(shell);
    if (leaves && !elastic_.unfinished_on(shell).empty()) return "a shell with tasks is about to leave";
  }
  return "";
}

void JobLeader::answer(const Message& message) {
  if (!all_started_ || !open_losses_.empty()) return unanswered_.push_back(message);
  Message out = message;
  out.why_not = why_not_whole();
  shell_.group().announce(elastic::RestartMessage::kAnswered, out.answered());
}

// A restart of all that is announced already does for the order, too.
void JobLeader::answer_order() {
  if (order_is_answered_ || shell_.ending().state().is_decided()) return;
  if (order_waits_ = !open_losses_.empty(); order_waits_) return;
  std::string why = all_started_ ? why_not_whole() : "the job is still being started";
  if (why.empty() && elastic_.restart().whole().is_under_way()) why = "it waits for its next start";
  if (!why.empty()) return elastic_.restart().refuse(elastic_.replica().job().all_ranks(), why);
  Message all;
  all.whole = all.ordered = true;
  all.restarts = elastic_.replica().job().restarts;
  order_is_answered_ = true;
  shell_.group().announce(elastic::RestartMessage::kAnswered, all.answered());
}

// ---- nacre restart ----------------------------------------------------------------------------------

void JobLeader::order_restart(std::size_t number, const Idset& ranks) {
  const Idset all = elastic_.replica().job().all_ranks();
  const Idset running = all - shell_.records().all().ranks();
  bool is_served = shell_.group().has_started() && !job_over_;  // as the socket of the plugin control
  bool is_refused = !is_served || !elastic_.replica().changes().restarts || shell_.ending().is_ending() ||
                    running.empty() || !(ranks - all).empty();
  if (is_refused) return shell_.process().witness().answered(number, true);
  restarting_.push_back({number, ranks.empty() ? running : ranks & running});
  Json order = Json::object();
  if (!ranks.empty()) order["ranks"] = restarting_.back().waiting.str();
  if (!restarting_.back().waiting.empty()) shell_.group().announce("shell.restart-order", dump_json(order));
  answer_complete();
}

void JobLeader::restarted(const Idset& ranks) { refused(ranks); }

void JobLeader::refused(const Idset& ranks) {
  for (Restart& each : restarting_) each.waiting = each.waiting - ranks;
  answer_complete();
}

void JobLeader::answer_complete() {
  std::vector<Restart> done;
  std::erase_if(restarting_, [&](const Restart& each) {
    if (each.waiting.empty()) done.push_back(each);
    return each.waiting.empty();
  });
  for (const Restart& each : done) shell_.process().witness().answered(each.number, false);
}

std::string JobLeader::open() const {
  if (!shrinking_.empty()) return "a shrink";
  if ((open_ && !open_->is_answered) || !queue_.empty()) return "a grow";
  if (!restarting_.empty()) return "an order to restart";
  return "";
}

}  // namespace nacre::sim
