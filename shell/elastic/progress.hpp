// SPDX-License-Identifier: Apache-2.0
//
// Whether restarts bring a job forward (restart=...,no-progress=N): what is seen when tasks have ended is compared
// with what was seen at their last end. If tasks start again alone, or with those of their shell, all shells have
// such an object, and note the same in the order of the log. If all tasks start again, the shells exchange what
// they see, and the leader gives what it has noted, so that all decide alike even if they have not seen the same
// before.
#pragma once

#include "exits/record.hpp"
#include "job/job.hpp"
#include "job/options.hpp"

namespace nacre::elastic {

// What is seen of tasks that have ended and are to start again, and how they have ended.
struct ProgressLook {
  std::string seen;  // a number if the output is looked at; "": there was none yet
  double at = 0;     // seconds since the Epoch
  std::uint32_t shell = 0;
  exits::Record record = exits::Record::lost();
};

// Successive restarts of tasks that start together, after which the same was seen.
struct IdleRestarts {
  std::string seen;
  double since = 0;                          // when that was first seen
  std::uint64_t restarts = 0;                // since then
  value::Idset shells = {};                  // of the failures, which are one more
  std::optional<exits::Record> record = {};  // of all of them; none: they differ

  // "restart: 3 restarts have brought no progress since ...": what was looked at, and what the failures have in
  // common. `option` has no_progress; `whole`: all tasks of the job have started again each time.
  [[nodiscard]] std::string text(const job::RestartOption& option, const job::Job& job, bool whole) const;
};

// What a shell gives to the others before all tasks start together; "": nothing.
struct ProgressPart {
  std::string seen;
  double at = 0;
  bool leads = false;                       // the leader's, which has ...
  std::optional<IdleRestarts> before = {};  // ... what it has noted; none: nothing yet

  [[nodiscard]] std::string text() const;
  static Result<ProgressPart> parse(std::string_view text);
};

class RestartProgress {
 public:
  using Rank = value::Idset::Id;

  // `option` has no_progress.
  explicit RestartProgress(job::RestartOption option) : option_(std::move(option)) {}
  [[nodiscard]] const job::RestartOption& option() const { return option_; }

  // For this task, or for all tasks of its shell, of which it has the lowest rank. A result: they are not to start
  // again.
  std::optional<IdleRestarts> note(Rank rank, const ProgressLook& look) { return note(tasks_[rank], look); }
  // For all tasks of the job: what the shells have given, and where and how the first has failed. Also none if the
  // leader has not looked.
  std::optional<IdleRestarts> note_all(const std::map<std::string, value::Idset>& parts, std::uint32_t shell,
                                       const exits::Record& record);
  // The leader's part, once it has seen this.
  [[nodiscard]] ProgressPart leaders_part(std::string seen, double at) const {
    return {std::move(seen), at, true, all_};
  }
  // The larger of two numbers as texts, either of which may be none: "".
  static std::string larger(const std::string& a, const std::string& b);

  // What has been noted so far, for a shell that joins the job.
  [[nodiscard]] Json json() const;
  Result<void> take(const JsonAt& at);

 private:
  static auto description();
  std::optional<IdleRestarts> note(std::optional<IdleRestarts>& so_far, const ProgressLook& look) const;
  [[nodiscard]] bool has_moved(const std::string& before, const std::string& now) const;

  job::RestartOption option_;
  std::map<Rank, std::optional<IdleRestarts>> tasks_;
  std::optional<IdleRestarts> all_;
};

}  // namespace nacre::elastic
