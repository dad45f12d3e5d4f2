// SPDX-License-Identifier: Apache-2.0
#include "job_whole_answers.hpp"

#include <utility>

#include "job_elastic.hpp"
#include "job_shell.hpp"

namespace nacre::sim {

void JobWholeAnswers::all_started() {
  all_started_ = true;
  for (const Message& each : std::exchange(unanswered_, {})) answer(each);
}

// What was asked of a start that does not count any more has had its answer.
void JobWholeAnswers::go_on() {
  held_ = false;
  for (const Message& each : std::exchange(unanswered_, {})) {
    const elastic::RestartEnd& end = each.ends.front();
    if (elastic_.replica().job().attempt_of(end.rank) == end.attempt) answer(each);
  }
  if (std::exchange(order_waits_, false)) answer_order();
}

std::string JobWholeAnswers::why_not_whole() const {
  if (!shell_.records().all().ranks().empty()) return "a task has ended for good";
  for (Id shell = 1; shell < elastic_.replica().job().shells(); ++shell) {
    bool leaves = elastic_.replica().roster().leaves(shell);
    if (leaves && !elastic_.unfinished_on(shell).empty()) return "a shell with tasks is about to leave";
  }
  return "";
}

void JobWholeAnswers::answer(const Message& message) {
  if (!all_started_ || held_) return unanswered_.push_back(message);
  Message out = message;
  out.why_not = why_not_whole();
  shell_.group().announce(elastic::RestartMessage::kAnswered, out.answered());
}

// A restart of all that is announced already does for the order, too.
void JobWholeAnswers::answer_order() {
  if (order_is_answered_ || shell_.ending().state().is_decided()) return;
  if (order_waits_ = held_; order_waits_) return;
  std::string why = all_started_ ? why_not_whole() : "the job is still being started";
  if (why.empty() && elastic_.restart().whole().is_under_way()) why = "it waits for its next start";
  if (!why.empty()) return elastic_.restart().refuse(elastic_.replica().job().all_ranks(), why);
  Message all;
  all.whole = all.ordered = true;
  all.restarts = elastic_.replica().job().restarts;
  order_is_answered_ = true;
  shell_.group().announce(elastic::RestartMessage::kAnswered, all.answered());
}

}  // namespace nacre::sim
