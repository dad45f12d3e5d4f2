// SPDX-License-Identifier: Apache-2.0
#include "core/restart_answers.hpp"

#include <algorithm>
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
  if (!shells_.has_others() || !message.origin) return send_answer(message);
  held_.push_back({message, event::clock_now()});
  if (settle_timer_) return;
  auto timer = event::Timer::create(host_.loop(), [this] { settle(); });
  if (!timer) return settle();
  settle_timer_ = *std::move(timer);
  settle_timer_->start(kSettle);
}

// The first of them is granted, or none is.
void RestartAnswers::settle() {
  settle_timer_.reset();
  std::vector<Held> held = std::exchange(held_, {});
  std::erase_if(held, [this](const Held& each) {
    const elastic::RestartEnd& end = each.message.ends.front();
    return host_.job().attempt_of(end.rank) != end.attempt;
  });
  if (held.empty()) return;
  if (!losses_.empty()) {
    for (Held& each : held) unanswered_.push_back(std::move(each.message));
    return;
  }
  std::vector<exits::FailureFacts> failures;
  for (const Held& each : held) {
    const elastic::RestartEnd& end = each.message.ends.front();
    exits::FailureFacts& failure =
        failures.emplace_back(exits::FailureFacts{end.rank, end.record, *each.message.origin});
    failure.at = each.at.count();
    failure.clock = each.message.shell;
    failure.uncertainty = kSettle.count() / 2;  // of when it came, to when it was
  }
  exits::Blame blame = exits::first_of(failures);
  std::rotate(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(blame.first),
              held.begin() + static_cast<std::ptrdiff_t>(blame.first) + 1);
  // Where all others have only lost it, what its own shell knows is enough.
  bool is_clear = failures[blame.first].origin == exits::Origin::own &&
                  std::count_if(failures.begin(), failures.end(), [](const exits::FailureFacts& each) {
                    return each.origin != exits::Origin::peer;
                  }) == 1;
  if (held.size() > 1 && !is_clear && held.front().message.doubt.empty())
    held.front().message.doubt = exits::doubt_of(blame.is_certain, failures[blame.first].origin, blame.others);
  for (const Held& each : held) send_answer(each.message);
}

void RestartAnswers::send_answer(const Message& message) {
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
