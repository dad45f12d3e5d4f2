// SPDX-License-Identifier: Apache-2.0
//
// What went wrong first, and where: the leader's report of a job that has failed, as nacre-exits(7) describes it.
// It asks the shells of a few tasks, while the job runs, for what they know of them: of the first that failed, and
// of one of each other way to fail.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "plugin/host.hpp"
#include "plugins/exit_report/digests.hpp"
#include "plugins/exit_report/evidence.hpp"
#include "plugins/exit_report/task_facts.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class FailureReport {
 public:
  static constexpr std::size_t kMostAsked = 8;  // tasks

  // Both have to outlive it.
  FailureReport(plugin::Host& host, TaskFacts& facts)
      : host_(host), facts_(facts), digests_(host, facts), evidence_(host, facts) {}

  // From here on other shells are asked and answered.
  void serve();
  // The leader's, with the time of it, in seconds since the Epoch.
  void tasks_ended(const value::Idset& ranks, const exits::Record& record, double time);
  void note(std::string_view event, Json what, double time);  // for the timeline
  // Of this shell: processes that have outlived their tasks and are being ended, as the topic shell.processes-left
  // has them.
  void left(const Json& processes);
  // The leader's: the shell is lost, it answers no more.
  void lost(std::uint32_t shell);
  // All tasks have ended: what has been asked is waited for, for a moment.
  Result<void> finish();
  // How the job has ended (exits::summary): the report.
  [[nodiscard]] Json make(const Json& end) const;
  // Whether a task has failed that ran, and did more than write to a reader that has gone. Of commands that could
  // not be started, and of lost shells, the error that ends the job is complete.
  [[nodiscard]] bool has_news() const;

 private:
  void ask(value::Idset::Id rank, std::size_t most = kMostAsked);
  void answer(std::string_view ranks);
  void answer_if_complete();
  void take(std::string_view text);
  void note_clock(value::Idset::Id rank, Json& facts);
  void take_left(std::string_view text);
  void settle(value::Idset::Id rank);
  void let_go();
  void ask_for_digests();
  void ask_for_evidence();
  void conclude();
  [[nodiscard]] bool is_waiting() const {
    return !waited_for_.empty() || waits_for_digests_ || waits_for_evidence_;
  }
  [[nodiscard]] bool is_failure(const exits::Record& record) const;
  [[nodiscard]] Json facts_of(value::Idset::Id rank, const exits::Record& record) const;
  [[nodiscard]] Json cause(const Json& end) const;
  // The first that failed, as far as it is known by now; none: nothing has failed.
  struct Verdict {
    exits::TaskEnd first;
    exits::Origin origin = exits::Origin::unknown;
    bool is_certain = false;
    value::Idset others;  // that may have been the first
  };
  [[nodiscard]] std::optional<Verdict> verdict() const;
  [[nodiscard]] std::vector<exits::FailureFacts> failures() const;
  void add_by_arrival(std::vector<exits::FailureFacts>& failures) const;
  [[nodiscard]] exits::FailureFacts failure_by_arrival(value::Idset::Id rank, const exits::Record& record,
                                                       double at) const;
  [[nodiscard]] std::optional<exits::Record> arrived(value::Idset::Id rank) const;
  [[nodiscard]] value::Idset arrived_at_the_time_of(value::Idset::Id rank) const;
  [[nodiscard]] std::string last_line(value::Idset::Id rank) const;
  [[nodiscard]] Json classes(const std::string& record, const value::Idset& ranks) const;
  [[nodiscard]] Json all_left() const;

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration heard_;
  // Of this shell, that are to be reported: until when what they have written is waited for.
  std::map<const task::Task*, event::Seconds> asked_here_;
  std::optional<event::Timer> answer_timer_;
  // The leader's.
  struct Arrival {
    double at;  // by clock_now()
    value::Idset ranks;
    exits::Record record;
  };
  std::vector<Arrival> arrivals_;                            // of failures, the first
  value::Idset victims_;                                     // of the job's end
  std::map<std::string, value::Idset::Id> representatives_;  // of ways to end, by the record's text
  value::Idset asked_, waited_for_;                          // tasks
  std::map<value::Idset::Id, Json> known_;                   // by rank
  std::map<value::Idset::Id, double> asked_at_;              // by clock_now()
  FailureDigests digests_;
  FailureEvidence evidence_;
  std::uint64_t failed_ = 0;  // tasks that ran
  bool waits_for_digests_ = false, waits_for_evidence_ = false;
  Json left_ = Json::array();  // processes
  std::uint64_t more_left_ = 0;
  Json timeline_ = Json::array();
  std::optional<event::Timer> finish_timer_;
  bool holds_ = false;
  bool hangs_ = false;  // the doctor has found so
};

}  // namespace nacre::plugins
