// SPDX-License-Identifier: Apache-2.0
#include "core/restart_answers.hpp"

#include <utility>

#include <fmt/format.h>

#include "event/clock.hpp"

namespace nacre::core {

void RestartAnswers::all_started() {
  all_started_ = true;
  note_start();
  for (const Message& each : std::exchange(unanswered_, {})) answer(each);
}

// What was asked of a start that does not count any more has had its answer.
void RestartAnswers::loss_closes(group::Rank shell) {
  losses_.remove(shell);
  if (!losses_.empty()) return;
  for (const Message& each : std::exchange(unanswered_, {})) {
    const elastic::RestartEnd& end = each.ends.front();
    if (host_.job().attempt_of(end.rank) == end.attempt) answer(each);
  }
  if (std::exchange(order_waits_, false)) answer_order();
}

void RestartAnswers::note_start() { began_ = event::clock_now(); }

double RestartAnswers::ran() const { return (event::clock_now() - began_).count(); }

void RestartAnswers::answer(const Message& message) {
  if (!all_started_ || !losses_.empty()) return unanswered_.push_back(message);
  Message out = message;
  out.whole = true;
  out.why_not = why_not();
  send(out);
}

void RestartAnswers::answer_order() {
  if (order_is_answered_ || end_.is_decided()) return;
  if (order_waits_ = !losses_.empty(); order_waits_) return;
  std::string why = all_started_ ? why_not() : "the job is still being started";
  if (why.empty() && is_under_way_()) why = "it waits for its next start";
  if (why.empty() && !tasks_.all().empty()) {
    if (auto takes = rules_.pmi_takes_all(tasks_.all().front()->rank()); !takes) why = takes.error().message;
  }
  if (!why.empty()) return orders_.refuse(host_.job().all_ranks(), why);
  Message all;
  all.shell = host_.job().shell_rank;
  all.whole = all.ordered = true;
  all.restarts = host_.job().restarts;
  order_is_answered_ = true;
  send(all);
}

void RestartAnswers::send(const Message& answer) {
  Result<void> sent = host_.announce(Message::kAnswered, answer.answered());
  if (!sent) host_.raise({"exec", 0, "restart: " + sent.error().message, std::nullopt});
}

std::string RestartAnswers::why_not() const {
  constexpr std::string_view kAll = "all tasks would have to start again";
  const AllTasks& tasks = shells_.all_tasks();
  const value::Idset over = tasks.outcomes().ranks();
  if (!over.empty())
    return fmt::format("{}, and task {} {} ended for good", kAll, over.str(), over.size() == 1 ? "has" : "have");
  for (group::Rank shell = 1; shell < host_.job().shells(); ++shell) {
    if (!shells_.roster().leaves(shell) || tasks.unfinished_on(shell).empty()) continue;
    return fmt::format("{}, and shell {}{} is about to leave the job with task {}", kAll, shell,
                       host_.job().resources.nodes[shell].on(), tasks.unfinished_on(shell).str());
  }
  return "";
}

}  // namespace nacre::core
