// SPDX-License-Identifier: Apache-2.0
//
// Which tasks of a job start again, where, and as which start: what all its shells decide alike, as each has one
// and asks it for the same in the order of the log. What is decided it notes in the job at once. It starts nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "elastic/replacements.hpp"
#include "elastic/restart_message.hpp"
#include "elastic/restarts.hpp"
#include "job/job.hpp"
#include "value/idset.hpp"

namespace nacre::elastic {

class Recovery {
 public:
  // Whether tasks may start there, by the log so far: the shell is of the job, and stays, and the job is not to
  // end.
  using Stays = std::function<bool(std::uint32_t shell)>;

  // Both have to outlive it.
  Recovery(job::Job& job, Restarts& restarts, Stays stays)
      : job_(job), restarts_(restarts), stays_(std::move(stays)) {}

  // where=spare from now on. `shares_cores`: tasks may share them.
  void use_spares(bool shares_cores) { shares_cores_ = shares_cores; }

  // Tasks that start again by themselves: ends that are decided alike, one after the other, are one decision. None
  // where all tasks of the job have to start again, which the leader answers. `fallen`: something came before.
  struct Alone {
    std::vector<RestartDecision> decisions;
    value::Idset fallen;
  };
  Alone decide(const RestartMessage& asked);
  // All tasks of the job, or of the shell that has asked, together. Of the job: with where=spare those of the shell
  // that has asked go to a spare, if one can take them.
  RestartDecision decide_together(const RestartMessage& message);
  // All tasks of the job, by nacre restart; none: some have started again since the leader has sent this answer, so
  // it has to answer anew.
  std::optional<RestartDecision> decide_order(const RestartMessage& answer);

  // With where=spare: where these start. They go to a shell that others of their shell have gone to before them, if
  // it has room, else to the first spare that can take them. A task that is in neither list of the answer does not
  // wait any more by this place in the log.
  SparePlaces place(const SpareRequest& asked);

  // Whether those of a lost shell may go there: with where=spare others may have come before them.
  [[nodiscard]] bool may_take(std::uint32_t shell) const {
    return stays_(shell) && (!shares_cores_ || job_.is_spare(shell));
  }

  // Tasks of a lost shell go to others. Returns what has had an effect: no tasks go to a shell that does not stay.
  static std::vector<job::Move> move(job::Job& job, std::vector<job::Move> moves, const Stays& stays);
  // The same, and all tasks of the job start again with them; one decision grants it or does not. None: something
  // has come before it, so nothing has an effect, and the leader decides anew.
  std::optional<RestartDecision> decide_replacement(const Replacement& replacement);

 private:
  [[nodiscard]] bool stands(std::uint32_t shell, const RestartEnd& end) const;
  RestartDecision decide(const RestartEnd& end, bool ordered);
  [[nodiscard]] Result<std::uint32_t> spare_for(std::uint32_t shell, const value::Idset& ranks) const;
  [[nodiscard]] std::vector<job::Move> moves_of(const value::Idset& ranks, std::uint32_t from, std::uint32_t to,
                                                std::uint32_t more) const;
  void start_together(RestartDecision& decision, std::uint32_t shell);
  void note(const std::vector<job::Move>& moves);

  job::Job& job_;
  Restarts& restarts_;
  Stays stays_;
  std::optional<bool> shares_cores_;  // with where=spare
};

}  // namespace nacre::elastic
