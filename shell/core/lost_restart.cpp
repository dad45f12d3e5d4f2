// SPDX-License-Identifier: Apache-2.0
//
// ShellRestart where all tasks start again with those of a lost shell, which start elsewhere: PMI knows no second
// start of a single rank. If they wait to start again already it uses no other restart.
#include <utility>

#include <fmt/format.h>

#include "core/shell_restart.hpp"

namespace nacre::core {

Result<bool> ShellRestart::takes_all_with_lost(const value::Idset& connected) const {
  using When = job::RestartOption::When;
  const bool by_itself = option_.is_on() && option_.when != When::on_request;
  if (!by_itself && !waits_together()) {
    if (host_.stack().find("pmix") != nullptr && TRY(rules_.pmi_takes_all(value::Idset::kMaxId, "pmix")))
      return Error{ENOTSUP,
                   "the tasks' PMIx server (pmi=pmix) does not take a rank that starts again elsewhere, but all of "
                   "them (restart=on-failure)"};
    if (connected.empty()) return false;
    return Error{ENOTSUP,
                 fmt::format("rank {} {} called PMI init and not finalize, and PMI does not take a rank that "
                             "starts again, but all of them (restart=on-failure)",
                             connected.str(), connected.size() == 1 ? "has" : "have")};
  }
  bool takes_all = TRY(rules_.pmi_takes_all(value::Idset::kMaxId)) || !connected.empty() ||
                   (by_itself && option_.scope == job::RestartOption::Scope::job);
  std::string why = takes_all ? answers_.why_not() : "";
  if (!why.empty()) return Error{ECANCELED, std::move(why)};
  return takes_all;
}

elastic::Replacement::All ShellRestart::all_with_lost() const {
  elastic::Replacement::All out{job_.restarts, answers_.ran()};
  if (waits_together()) out.delay = together_->plan().delay;
  return out;
}

std::optional<elastic::RestartDecision> ShellRestart::start_with_lost(const elastic::Replacement& what) {
  const value::Idset spares = job_.spare_shells();
  auto decision = recovery_ ? recovery_->decide_replacement(what) : std::nullopt;
  if (!decision || !decision->is_granted()) return decision;
  std::string number = decision->last > 0 ? fmt::format(" (restart {} of {})", decision->last, option_.max) : "";
  shells_.moved(what.moves, spares,
                fmt::format(", and with it all tasks of the job {}{}", when_of(*decision), number));
  reports_.decided(what.from(), *decision);
  for (Rank rank : decision->together.ids())
    shells_.all_tasks().expect(value::Idset::range(rank, rank), job_.attempt_of(rank));
  begin_together(*decision);
  return decision;
}

}  // namespace nacre::core
