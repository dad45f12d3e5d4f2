// SPDX-License-Identifier: Apache-2.0
//
// What went wrong first, and where: the leader's report of a job that has failed, as nacre-exits(7) describes it.
// It asks the shells of a few tasks, while the job runs, for what they know of them: of the first that failed, and
// of one of each other way to fail.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "event/loop.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "plugin/host.hpp"
#include "plugins/exit_report/task_facts.hpp"
#include "timeline/facts.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

// Which tasks have failed alike: in the same way, with the same last line on standard error, and, where a core dump
// shows it, in the same module. The leader asks all shells once, when the tasks of the job have ended; each answers
// for its own.
class FailureDigests {
 public:
  static constexpr std::size_t kMostHere = 16;  // that a shell sends of each way to fail
  static constexpr std::size_t kMostAll = 32;   // of all shells

  struct Class {
    std::string last;    // line
    std::string module;  // "": not known
    value::Idset ranks;
  };

  // Both have to outlive it.
  FailureDigests(plugin::Host& host, TaskFacts& facts) : host_(host), facts_(facts) {}

  // From here on the leader is answered.
  void serve();
  // The leader's: of tasks whose records have these texts. `done` is called once, perhaps before it returns, unless
  // this is destroyed.
  void ask(const std::vector<std::string>& records, std::function<void()> done);
  // By the record's text, the largest first. Tasks of which nothing is known, and of a shell's or the job's classes
  // beyond the most, are in none.
  [[nodiscard]] const std::map<std::string, std::vector<Class>>& classes() const { return classes_; }

 private:
  void asked(std::string_view records);
  void answer_if_written();
  void answer();
  [[nodiscard]] std::string own() const;
  void take(const plugin::Gathered& all);

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration announcements_, gathered_;
  std::function<void()> done_;
  std::set<std::string> records_;  // that are asked for
  event::Seconds until_{};         // when what their tasks have written is waited for no longer
  std::optional<event::Timer> timer_;
  std::map<std::string, std::vector<Class>> classes_;
};

// What the shells of a job know of the tasks that have failed, from which it follows which was the first
// (exits/blame.hpp). The leader asks all shells once, when the tasks have ended; each answers for its own, with
// those that may have been the first.
class FailureEvidence {
 public:
  static constexpr std::size_t kMostOwn = 6;    // that a shell sends: of those that others have not brought about
  static constexpr std::size_t kMostPeers = 2;  // ... and of the rest

  // Both have to outlive it.
  FailureEvidence(plugin::Host& host, TaskFacts& facts) : host_(host), facts_(facts) {}

  // From here on the leader is answered.
  void serve();
  // The leader's. `done` is called once, perhaps before it returns, unless this is destroyed.
  void ask(std::function<void()> done);

  // How the clock of a shell is to the leader's: of a question and its answer, in seconds by the clock of who has
  // sent or received it.
  struct Exchange {
    double sent = 0, received = 0, answered = 0, taken = 0;
  };
  void add_exchange(std::uint32_t shell, const Exchange& exchange);

  // By the leader's clock; those of a shell that has answered are all that may have been the first there.
  [[nodiscard]] std::vector<exits::FailureFacts> failures() const;
  [[nodiscard]] const value::Idset& answered() const { return answered_; }  // shells

 private:
  void asked();
  void answer_if_written();
  void answer();
  [[nodiscard]] std::vector<exits::FailureFacts> own() const;
  void take(const plugin::Gathered& all);

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration announcements_, gathered_;
  std::function<void()> done_;
  event::Seconds sent_{};      // when all were asked
  event::Seconds received_{};  // when this shell was
  std::optional<event::Timer> timer_;
  std::vector<exits::FailureFacts> failures_;  // by the clocks of their shells, which are their `clock`
  std::map<std::uint32_t, timeline::Clock> clocks_;
  value::Idset answered_;
};

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
  [[nodiscard]] Json bad_hosts() const;

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
  value::Idset gone_;                                        // with their shells, which is no failure
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

// Names the tasks that fail, in one line for all that fail alike within a moment, on all nodes: "task 3, 7-9 on n1:
// exit code 3". What they have written comes out first.
class FailureNaming {
 public:
  // It has to outlive it.
  explicit FailureNaming(plugin::Host& host) : host_(host) {}

  // They have ended by themselves, or could not be started.
  Result<void> add(const value::Idset& ranks, const exits::Record& record);
  // What waits is named now.
  void finish();

 private:
  using Failed = std::map<std::string, value::Idset>;  // by the text of their record

  void look();
  Failed take_ready();
  void report(Failed failed);

  plugin::Host& host_;
  Failed failed_;  // that are not named yet
  std::optional<event::Timer> timer_;
  event::Seconds wait_{};         // before the next line
  event::Seconds waits_since_{};  // for output
  std::optional<event::Seconds> named_at_;
};

}  // namespace nacre::plugins
