// SPDX-License-Identifier: Apache-2.0
#include "elastic_check.hpp"

#include <fmt/format.h>

#include "job_elastic.hpp"

namespace nacre::sim {
namespace {

constexpr Time kMostForAnswer = 90 * kSecond;  // of a job to whose shells nothing is done

}  // namespace

void ElasticCheck::logged(const Entry& entry) {
  const auto* view = std::get_if<View>(&entry.body);
  if (view == nullptr) return;
  for (const overlay::Newcomer& each : view->add) {
    require(ids_.contains(each.id), fmt::format("{} joins, and nobody has started it", each.id));
    require(!(members_ | dead_ | left_).contains(each.id), fmt::format("{} joins twice", each.id));
    members_.insert(each.id);
  }
  members_ = members_ - view->dead - view->leave;
  dead_ = dead_ | view->dead;
  left_ = left_ | view->leave;
}

void ElasticCheck::grows(Id shell) {
  bool is_used = shell < plan_.members || ids_.contains(shell);
  require(!is_used, fmt::format("the number of shell {} is used again", shell));
  ids_.insert(shell);
}

// ---- tasks -------------------------------------------------------------------------------------------

void ElasticCheck::started(const Witness::Start& start) {
  require(starts_.emplace(start.rank, start.attempt).second,
          fmt::format("try {} of task {} starts twice", start.attempt, start.rank));
  check_live_tries(start);
  running_[start.rank].insert(start.shell);
  had_.emplace(start.shell, start.rank);
  if (start.why != Witness::Why::automatic) return;
  restarts_.insert(start.restart);
  const auto& limits = plan_.changes->limits;
  require(restarts_.size() <= limits.job,
          fmt::format("{} restarts, and the job has {}", restarts_.size(), limits.job));
  if (!start.restart.starts_with("task")) return;
  auto& of_task = per_task_[start.rank];
  of_task.insert(start.restart);
  require(of_task.size() <= limits.per_task,
          fmt::format("{} restarts of task {}, and it has {}", of_task.size(), start.rank, limits.per_task));
}

// A shell that is lost, or cut off, may not know it yet.
void ElasticCheck::check_live_tries(const Witness::Start& start) const {
  auto found = running_.find(start.rank);
  if (found == running_.end()) return;
  for (Id shell : found->second) {
    bool may_be = shell != start.shell && (harmed_.contains(shell) || harmed_.contains(0) || !world_.lives(shell));
    require(may_be, fmt::format("task {} starts on {}, and runs on {}", start.rank, start.shell, shell));
  }
}

void ElasticCheck::moved(Id rank, Id to) const {
  require(members_.contains(to), fmt::format("task {} goes to {}, which is not of the job", rank, to));
}

// ---- what the shells make of it ------------------------------------------------------------------------

void ElasticCheck::agreed(Id shell, Seq entry, const std::string& view) {
  const std::string& first = views_.emplace(entry, view).first->second;
  require(first == view, fmt::format("after entry {} {} has: {}; and others: {}", entry, shell, view, first));
}

// ---- orders ----------------------------------------------------------------------------------------------

void ElasticCheck::ordered(std::size_t order) {
  orders_[order] = false;
  given_[order] = world_.now;
}

void ElasticCheck::answered(std::size_t order) {
  auto found = orders_.find(order);
  require(found != orders_.end(), fmt::format("an answer to order {}, which was not given", order));
  require(!std::exchange(found->second, true), fmt::format("order {} is answered twice", order));
  bool is_late = plan_.is_calm() && world_.now > given_[order] + kMostForAnswer;
  require(!is_late, fmt::format("order {} is answered late", order));
}

// ---- at the end --------------------------------------------------------------------------------------------

void ElasticCheck::at_the_end(bool in_order) const {
  if (!plan_.changes) return;
  for (const auto& each : shells_) {
    const JobProcess& process = each->process();
    if (!in_order || !process.is_over() || process.has_crashed() || each->ending().state().is_cut_off()) continue;
    bool is_there = each->group().has_joined() && !each->has_given_up();
    require(!is_there || each->elastic()->open().empty(),
            fmt::format("at the end of a shell there is open: {}", each->elastic()->open()));
  }
  for (const auto& [order, is_answered] : orders_)
    require(!in_order || is_answered,
            fmt::format("order {} has no answer: {}", order, brief(plan_.changes->orders[order])));
}

void ElasticCheck::count(JobOutcome& out) const {
  for (const auto& [order, is_answered] : orders_) out.answers += is_answered ? 1 : 0;
  out.joined = ((members_ | dead_ | left_) & ids_).size();
  out.left = left_.size();
  for (const auto& [rank, attempt] : starts_) out.again += attempt > 1 ? 1 : 0;
}

}  // namespace nacre::sim
