// SPDX-License-Identifier: Apache-2.0
#include "job_replica.hpp"

#include <utility>

#include <fmt/format.h>

#include "elastic/recovery.hpp"
#include "elastic/roster.hpp"

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

JobReplica::JobReplica(const JobPlan& plan, Id id, const exits::JobEnd& end)
    : changes_(*plan.changes),
      job_(job_of(plan, id)),
      restarts_(changes_.limits),
      recovery_(job_, restarts_, [this, &end](Id shell) { return !end.is_decided() && roster_.stays(shell); }) {
  if (changes_.to_spare) recovery_.use_spares(false);
}

// ---- its tasks -----------------------------------------------------------------------------

Idset JobReplica::number_of(Id rank, std::uint32_t attempt) const {
  auto number = elastic::Starts(job_.tasks()).number(rank, attempt);
  return Idset::range(number, number);
}

std::vector<job::Move> JobReplica::move(const std::vector<job::Move>& moves) {
  return elastic::Recovery::move(
      job_, moves, [this](Id id) { return changes_.to_spare ? recovery_.may_take(id) : roster_.stays(id); });
}

// ---- its shells ----------------------------------------------------------------------------

Idset JobReplica::grow(const elastic::Growth& growth) {
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
  return come;
}

void JobReplica::note_before(const elastic::Growth& growth) {
  growth_.shells.insert(growth_.shells.end(), growth.shells.begin(), growth.shells.end());
}

Json JobReplica::state() const {
  Json out = elastic::job_state(job_);
  out["shells"] = roster_.json();
  out["shells"]["tasks_over"] = tasks_over_;
  out["restart"] = restarts_.json();
  return out;
}

void JobReplica::take_state(const Json& state) {
  std::vector<job::NodeResources> nodes;
  for (const elastic::Growth::Shell& each : growth_.shells) {
    nodes.push_back({0, each.hostname, each.cores, each.gpus, {}});
    if (!each.has_come) roster_.note_lost(Idset::range(each.rank, each.rank));
  }
  job_.grow(std::move(nodes));
  require(elastic::take_job_state(JsonAt::root(state), job_).has_value(), "the state of the job can be read");
  require(restarts_.take(JsonAt::root(state.at("restart"))).has_value(), "the state of restarts can be read");
  require(roster_.add(JsonAt::root(state.at("shells"))).has_value(), "the state of the shells can be read");
  tasks_over_ = state.at("shells").at("tasks_over").get<bool>();
}

std::string JobReplica::text() const {
  std::string starts;
  for (const auto& [rank, attempt] : job_.starts) starts += fmt::format(" {}:{}", rank, attempt);
  return fmt::format("tasks {}, starts{}, {} restarts, {} used, shells {}, spares {}, and {}", job_.taskmap.str(),
                     starts, job_.restarts, restarts_.used(), job_.shells(), job_.spare_shells().str(),
                     dump_json(roster_.json()));
}

}  // namespace nacre::sim
