// SPDX-License-Identifier: Apache-2.0
//
// Which shells a job has, and where its tasks are, as core/shell_group.cpp, shell_replace.cpp, shell_shrink.cpp and
// shell_grow.cpp have it on each shell, and join/newcomer.cpp.
#include "job_elastic.hpp"

#include <csignal>

#include <fmt/format.h>

#include "elastic/job_state.hpp"
#include "job_leader.hpp"

namespace nacre::sim {
namespace {

constexpr Id kCores = 4;

job::NodeResources node_of(Id shell) {
  return {shell, fmt::format("n{}", shell), Idset::range(0, kCores - 1), {}, {}};
}

job::Job job_of(const JobPlan& plan, Id id) {
  job::Job out;
  out.shell_rank = id;
  for (Id shell = 0; shell < plan.members; ++shell) out.resources.nodes.push_back(node_of(shell));
  std::vector<std::uint32_t> nodes;
  for (const TaskPlan& each : plan.tasks) nodes.push_back(each.shell);
  out.taskmap = value::Taskmap::of(nodes);
  out.shares.resize(plan.members);
  out.spares = plan.changes->spares;
  return out;
}

}  // namespace

JobElastic::JobElastic(JobShell& shell, const elastic::Growth* before)
    : shell_(shell),
      world_(shell.process().world()),
      job_(job_of(shell.process().plan(), shell.process().id())),
      restarts_(shell.process().plan().changes->limits),
      recovery_(job_, restarts_,
                [this](Id id) { return !shell_.ending().state().is_decided() && roster_.stays(id); }),
      leader_(shell.process().leads() ? std::make_unique<JobLeader>(*this) : nullptr),
      joining_me_(before != nullptr) {
  if (before != nullptr) growth_ = *before;
  if (changes().to_spare) recovery_.use_spares(false);
}
JobElastic::~JobElastic() = default;

void JobElastic::announce(std::string_view topic, const std::string& bytes) {
  shell_.group().ask(Event{std::string(topic), bytes});
}

// ---- the log -----------------------------------------------------------------------------------

void JobElastic::deliver(const Entry& entry) {
  if (const auto* end = std::get_if<Campaign>(&entry.body); end != nullptr && !end->grow) {
    value::Shrunk shrunk{end->done, end->unconfirmed};
    shell_.process().post_of_job(
        [this, all = shrunk.gone | shrunk.unconfirmed] { note_left(all - roster_.left()); });
  }
  bool is_answer = entry.request.origin == 0 && !std::holds_alternative<View>(entry.body);
  if (leader_ && is_answer && entry.request.number != 0)
    shell_.process().post_of_job([this, entry] { leader_->answered(entry); });
  if (const auto* event = std::get_if<Event>(&entry.body)) {
    if (!shell_.process().serves() && joining_me_ && early(*event)) return;
    shell_.process().post_of_job([this, each = *event] { announced(each.name, each.data); });
  }
}

// From the grow on that brings it the newcomer counts; what comes before does not concern it.
bool JobElastic::early(const Event& event) {
  bool is_grown = event.name == elastic::kGrownTopic;
  if (!is_grown && (event.name != elastic::kStateTopic || !is_mine_ || state_)) return false;
  Json what = parse_json(event.data).value();
  if (!is_grown) {
    shell_.process().post([this, what] { (what.contains("ended") ? ended_ : state_) = what; });
    return false;
  }
  auto growth = elastic::Growth::parse(JsonAt::root(what)).value();
  if (!growth.has(shell_.process().id())) return false;
  is_mine_ = true;
  growth_.shells.insert(growth_.shells.end(), growth.shells.begin(), growth.shells.end());
  shell_.process().drop_kept();
  return true;
}

void JobElastic::lost(Id shell) {
  if (leader_) leader_->lost_newcomer(shell);
  if (roster_.is_to_leave(shell)) {
    note_left(Idset::range(shell, shell));
    if (leader_) leader_->lost_leaving(shell);
    return;
  }
  roster_.note_lost(Idset::range(shell, shell));
  if (shell < job_.shells() && leader_) leader_->lost(shell);
}

void JobElastic::note_left(const Idset& shells) {
  if (shells.empty()) return;
  roster_.note_left(shells);
  for (Id shell : shells.ids()) {
    if (leader_) leader_->note_ended(leader_->unfinished_on(shell), exits::Record::victim({}));
  }
}

// What all shells have to make of the log alike.
void JobElastic::agree(Seq seq) {
  if ((joining_me_ && !state_) || shell_.has_given_up()) return;
  std::string starts;
  for (const auto& [rank, attempt] : job_.starts) starts += fmt::format(" {}:{}", rank, attempt);
  std::string view = fmt::format("tasks {}, starts{}, {} restarts, {} used, shells {}, spares {}, and {}",
                                 job_.taskmap.str(), starts, job_.restarts, restarts_.used(), job_.shells(),
                                 job_.spare_shells().str(), dump_json(roster_.json()));
  shell_.process().witness().agreed(shell_.process().id(), seq, view);
}

// ---- tasks of lost shells ------------------------------------------------------------------------

void JobElastic::moved(const std::string& bytes) {
  auto what = elastic::Replacement::parse(bytes, job_.shells(), job_.tasks());
  require(what.has_value(), what ? "" : "where tasks go cannot be read: " + what.error().message);
  if (leader_) leader_->replaced(what->moves);
  if (what->all) return moved_with_all(*what);
  auto stand = elastic::Recovery::move(
      job_, what->moves, [this](Id id) { return changes().to_spare ? recovery_.may_take(id) : roster_.stays(id); });
  take(stand);
  for (const job::Move& each : stand) {
    if (!leader_) continue;
    for (Rank rank : each.ranks.ids()) shell_.process().witness().moved(rank, each.to);
    leader_->restarted(each.ranks);
  }
  if (!leader_) return;
  stand.size() < what->moves.size() ? leader_->replace(what->from()) : leader_->loss_closes(what->from());
}

void JobElastic::moved_with_all(const elastic::Replacement& what) {
  auto decision = recovery_.decide_replacement(what);
  bool is_granted = decision && decision->is_granted();
  if (is_granted) take(what.moves);
  for (const job::Move& each : what.moves) {
    if (!is_granted || !leader_) continue;
    for (Rank rank : each.ranks.ids()) shell_.process().witness().moved(rank, each.to);
  }
  if (is_granted && leader_) {
    leader_->restarted(decision->together);
    leader_->expect(decision->together);
  }
  if (is_granted) begin_together(*decision);
  if (!leader_) return;
  if (!decision) return leader_->decide_loss(what.from());
  is_granted ? leader_->loss_closes(what.from()) : leader_->give_up(what.from());
}

void JobElastic::take_over() {
  job::Move move = std::move(due_.front());
  due_.pop_front();
  move.ranks = move.ranks & job_.taskmap.ranks_on(shell_.process().id());  // they may have gone on to a spare
  // All may have been told to start again meanwhile.
  for (Rank rank : move.ranks.ids()) {
    std::uint32_t attempt = job_.attempt_of(rank);
    why_[{rank, attempt}] = {Witness::Why::moved, ""};
    Task task;
    task.rank = rank;
    task.attempt = attempt;
    task.plan = shell_.process().plan().task(rank, attempt);
    shell_.tasks().add(task);
  }
  constexpr std::uint64_t kMostHeld = 20'000;
  shell_.process().hold(kMostHeld, [this] {
    if (!ending() && !together_ && !leaves_) start_tasks();
  });
}

// ---- shells that leave -----------------------------------------------------------------------------

void JobElastic::leaving(const Idset& shells, Time grace) {
  roster_.note_leaving(shells);
  if (!shells.contains(shell_.process().id())) return;
  leaves_ = true;
  shell_.tasks().end(grace);
  put_ready();
}

void JobElastic::all_put() {
  all_put_ = true;
  put_ready();
}

void JobElastic::put_ready() {
  if (!leaves_ || !all_put_ || std::exchange(is_ready_, true)) return;
  shell_.process().witness().put_ready(shell_.process().id());
}

void JobElastic::leave() {
  has_left_ = true;
  shell_.ending().left();
  shell_.tasks().kill(SIGKILL);
}

// ---- shells that join ------------------------------------------------------------------------------

void JobElastic::grown(const elastic::Growth& growth) {
  require(growth.shells.front().rank == job_.shells(), "shells that join follow those that there are");
  std::vector<job::NodeResources> nodes;
  Idset come, missing;
  for (const elastic::Growth::Shell& each : growth.shells) {
    (each.has_come ? come : missing).insert(each.rank);
    nodes.push_back({0, each.hostname, each.cores, each.gpus, {}});
    growth_.shells.push_back(each);
  }
  job_.grow(std::move(nodes));
  static_cast<void>(roster_.note_joining(come, missing));
  if (leader_) leader_->grown(come);
}

void JobElastic::joined(Seq view) {
  shell_.group().set_scope({view, view});
  announce(elastic::kOfferTopic, dump_json({{"shell", shell_.process().id()}, {"offer", ""}}));
}

// What the job has come to by the entry that brings it.
void JobElastic::take_state() {
  std::vector<job::NodeResources> nodes;
  for (const elastic::Growth::Shell& each : growth_.shells) {
    nodes.push_back({0, each.hostname, each.cores, each.gpus, {}});
    if (!each.has_come) roster_.note_lost(Idset::range(each.rank, each.rank));
  }
  job_.grow(std::move(nodes));
  const Json& state = *state_;
  require(elastic::take_job_state(JsonAt::root(state), job_).has_value(), "the state of the job can be read");
  require(restarts_.take(JsonAt::root(state["restart"])).has_value(), "the state of restarts can be read");
  require(roster_.add(JsonAt::root(state["shells"])).has_value(), "the state of the shells can be read");
  tasks_over_ = state["shells"]["tasks_over"].get<bool>();
}

bool JobElastic::fails_to_join(const exits::Cause& cause) {
  if (!joining_me_) return false;
  if (!shell_.ending().raised(cause) || std::exchange(has_failed_, true)) return true;
  announce(elastic::kReadyTopic, dump_json({{"shell", shell_.process().id()}, {"error", cause.message}}));
  shell_.tasks().end();
  shell_.process().serve();
  return true;
}

void JobElastic::ready() {
  if (!joining_me_ || has_failed_) return;
  joining_me_ = false;
  announce(elastic::kReadyTopic, dump_json({{"shell", shell_.process().id()}}));
}

std::string JobElastic::open() const {
  if (!kept_.empty()) return fmt::format("the end of task {} is kept back", kept_.begin()->first);
  if (together_) return "a restart of all tasks";
  return leader_ ? leader_->open() : "";
}

}  // namespace nacre::sim
