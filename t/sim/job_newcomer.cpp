// SPDX-License-Identifier: Apache-2.0
#include "job_newcomer.hpp"

#include <utility>

#include "job_shell.hpp"

namespace nacre::sim {

JobNewcomer::JobNewcomer(JobShell& shell, JobReplica& replica, const elastic::Growth* before)
    : shell_(shell), replica_(replica), is_joining_(before != nullptr) {
  if (before != nullptr) replica_.note_before(*before);
}

void JobNewcomer::joined(Seq view) {
  shell_.group().set_scope({view, view});
  shell_.group().announce(elastic::kOfferTopic, dump_json({{"shell", shell_.process().id()}, {"offer", ""}}));
}

// From the grow on that brings it the newcomer counts; what comes before does not concern it.
bool JobNewcomer::early(const Event& event) {
  if (shell_.process().serves() || !is_joining_) return false;
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
  replica_.note_before(growth);
  shell_.process().drop_kept();
  return true;
}

void JobNewcomer::take_state() { replica_.take_state(*state_); }

bool JobNewcomer::fails(const exits::Cause& cause) {
  if (!is_joining_) return false;
  if (!shell_.ending().raised(cause) || std::exchange(has_failed_, true)) return true;
  shell_.group().announce(elastic::kReadyTopic,
                          dump_json({{"shell", shell_.process().id()}, {"error", cause.message}}));
  shell_.tasks().end();
  shell_.process().serve();
  return true;
}

void JobNewcomer::ready() {
  if (!is_joining_ || has_failed_) return;
  is_joining_ = false;
  shell_.group().announce(elastic::kReadyTopic, dump_json({{"shell", shell_.process().id()}}));
}

}  // namespace nacre::sim
