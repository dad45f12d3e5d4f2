// SPDX-License-Identifier: Apache-2.0
//
// How the tasks of all shells of a job have ended so far. Only the leader has this for the tasks of others.
#pragma once

#include <cstddef>
#include <functional>

#include "core/change_notices.hpp"
#include "elastic/starts.hpp"
#include "exits/outcomes.hpp"
#include "exits/record.hpp"
#include "group/group.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class AllTasks {
 public:
  // Both have to outlive it.
  AllTasks(plugin::Host& host, ChangeNotices& notices) : host_(host), notices_(notices) {}

  // Calls `receive` once, with the task that is the first of all shells known to have ended by itself.
  void when_first_ended(std::function<void(const exits::TaskEnd&)> receive) {
    on_first_ended_ = std::move(receive);
  }
  // From now on only this start of these tasks counts.
  void expect(const value::Idset& ranks, elastic::Starts::Attempt attempt) { expected_.expect(ranks, attempt); }

  // What a shell has reported; ends of starts that do not count are dropped.
  void reported(const group::Ended& ended);
  // Of those of `ranks` that have no record yet this is the record.
  void ended(const value::Idset& ranks, const exits::Record& record);

  [[nodiscard]] const exits::Outcomes& outcomes() const { return outcomes_; }
  // The same at the end of the job: a task without a record was never started.
  const exits::Outcomes& final_outcomes();
  [[nodiscard]] value::Idset unfinished_on(group::Rank shell) const;
  [[nodiscard]] std::size_t left() const;  // the number of those that have not ended

 private:
  plugin::Host& host_;
  ChangeNotices& notices_;
  elastic::ExpectedStarts expected_;
  exits::Outcomes outcomes_;
  std::function<void(const exits::TaskEnd&)> on_first_ended_;  // until it is called
};

}  // namespace nacre::core
