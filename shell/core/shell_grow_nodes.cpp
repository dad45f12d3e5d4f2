// SPDX-License-Identifier: Apache-2.0
//
// The part of a grow in which the leader gets nodes from the manager, and gives back those that nobody uses.
#include <fmt/format.h>

#include "base/json.hpp"
#include "base/variable.hpp"
#include "core/shell_grow.hpp"
#include "job/batch_system.hpp"
#include "job/leavers.hpp"
#include "launch/launcher.hpp"
#include "task/command_run.hpp"

namespace nacre::core {
// A number of nodes that is not of one host, or those of a job whose nodes only the manager gives.
bool ShellGrow::needs_manager(const value::GrowOrder& order) const {
  const join::LaterShells& later = *process_.later;
  return later.is_managed || (order.count > 0 && !later.record.agent.empty());
}

event::Seconds ShellGrow::wait_of(const value::GrowOrder& order, std::size_t shells) const {
  double all_starts =
      process_.later->record.timeout * static_cast<double>(1 + shells / launch::Launcher::kMostAtOnce);
  return event::Seconds(order.wait.value_or(all_starts));
}

Result<void> ShellGrow::make_nodes() {
  if (nodes_) return {};
  auto manager = host_.options().at("elastic.manager");  // plugins/elastic reads it
  if (manager && manager->json() != "auto")
    return Error{
        ENOTSUP,
        "the job's option elastic.manager is not auto, so Slurm is asked for no nodes: start it without that"};
  auto allocation = job::BatchSystem::of_environment(own_variable);
  if (allocation.kind != job::BatchSystem::Kind::slurm)
    return invalid("--count names no hosts, and nobody else does: give --hosts");
  nodes_ = std::make_unique<SlurmNodes>(host_, allocation.job, [this](const std::vector<std::string>& command) {
    if (process_.guard) process_.guard->set_command(command);
  });
  shrink_.set_nodes(nodes_.get());
  return {};
}

Result<void> ShellGrow::ask_manager(const value::GrowOrder& order, const WhenGrown& news) {
  CHECK_OK(make_nodes());
  value::Hostlist hosts = order.hosts;
  hosts.uniq();
  if (hosts.size() < order.hosts.size()) return invalid("a host is named twice: Slurm gives each once");
  const value::Idset all = value::Idset::range(0, job_.shells() - 1);
  value::Hostlist here = job::hosts_of(all - shells_.roster().gone(), job_);
  for (const std::string& each : hosts.names()) {
    if (here.find(each)) return invalid(fmt::format("{} is of the job already, and Slurm gives it once", each));
  }
  const std::uint64_t count = order.count + hosts.size();
  const std::uint64_t number = ++last_asked_;
  asking_.emplace(number, news);
  news(Json{{"manager", "Slurm"}, {"nodes", count}}, false);
  nodes_->ask({count, hosts, here, wait_of(order, count)}, [this, order, number](Result<SlurmNodes::Nodes> nodes) {
    auto asked = asking_.extract(number);
    if (asked && !nodes) return asked.mapped()(nodes.error(), true);
    if (asked) put({order, asked.mapped(), nodes->hosts, nodes->agent});
  });
  return {};
}

// Those whose shells have never been of the job; others give theirs back when they leave it.
void ShellGrow::give_back_unused(const Open& over) {
  if (!nodes_ || over.agent.empty()) return;
  value::Hostlist hosts;
  for (std::size_t i = 0; i < over.hosts.size(); ++i) {
    bool has_come = over.come && over.come->contains(over.first + static_cast<Rank>(i));
    if (!has_come) hosts.append(over.hosts[i]);
  }
  nodes_->give_back(hosts, nullptr);
}

// Usually the leader does, or its guard. This host's first allocation has another name, so it is left alone.
void ShellGrow::end_left_allocation() {
  auto allocation = job::BatchSystem::of_environment(own_variable);
  auto step = own_variable("SLURM_STEP_ID");
  if (allocation.kind != job::BatchSystem::Kind::slurm || !step) return;
  bool is_over = false;
  task::CommandRun run(host_.loop(), host_.children());
  auto done = [&](const Result<std::string>& ended) {
    is_over = true;
    if (!ended)
      host_.log().log(Level::error, "", "grow: {}: the allocation may be there still", ended.error().message);
  };
  Result<void> started = run.start(slurm_end_left(allocation.job, "nacre-" + job_.id.f58_plain(), *step), done);
  if (!started) return done(tl::unexpected(started.error()));
  host_.loop().run_until([&] { return is_over; });
}

void ShellGrow::end_allocations() {
  if (process_.joins_late && process_.end.is_cut_off()) return end_left_allocation();
  if (!nodes_) return;
  if (Result<void> ended = nodes_->end(); !ended)
    host_.log().log(Level::error, "",
                    "grow: {}: the job's allocations may be there still: end them by scancel --name=nacre-{}",
                    ended.error().message, job_.id.f58_plain());
}

}  // namespace nacre::core
