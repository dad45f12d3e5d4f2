// SPDX-License-Identifier: Apache-2.0
//
// Which tasks of a job start again, where, and as which start: what all its shells decide alike, as each has one
// and asks it for the same in the order of the log. What is decided it notes in the job at once. It starts nothing.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "elastic/progress.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "job/job.hpp"
#include "value/idset.hpp"

namespace nacre::elastic {

// Where the tasks of a lost shell start again, as the leader decides it: on a spare, or spread over other shells.
// A spare is promised to one lost shell until the log has the decision, and is free again if that does not stand,
// as something else came before it; so is the room that other shells have.
class Replacements {
 public:
  // What a shell has for tasks, or what tasks need.
  struct Room {
    std::uint64_t cores = 0;
    std::uint64_t gpus = 0;
  };
  struct Spare {
    std::uint32_t shell = 0;
    Room room;
  };
  struct Other {
    std::uint32_t shell = 0;
    std::uint64_t tasks = 0;  // that have not ended
    std::uint64_t room = 0;   // for so many more
  };

  // What the slots of these tasks have, but no more than the node that they were on, and no cores where tasks may
  // share them.
  static Room needed(const job::Job& job, std::uint32_t shell, const value::Idset& ranks, bool shares_cores);

  // The first of `spares`, which are alive and have no tasks, that is not promised and has what is needed. ENOENT:
  // there is none; the message says why: "there is no spare left".
  Result<std::uint32_t> choose(std::span<const Spare> spares, Room needed);
  // A shell for each of so many tasks: one by one that with the fewest, of those that have room; of equal ones the
  // first. ENOSPC: not all of them find room; the message says how many: "the other shells have room for 1 of 2
  // tasks".
  Result<std::vector<std::uint32_t>> spread(std::span<const Other> others, std::uint64_t tasks);
  // The log has the decision that so many tasks go to this shell, whether it stands or not.
  void ordered(std::uint32_t shell, std::uint64_t tasks);

 private:
  value::Idset promised_;
  std::map<std::uint32_t, std::uint64_t> coming_;  // tasks, by shell
};

// What the leader announces of the tasks of a lost shell that start again elsewhere (doc/protocol.md).
struct Replacement {
  // All tasks of the job start again with them.
  struct All {
    std::uint64_t restarts = 0;        // of the job, when the leader has decided it
    double ran = 0;                    // seconds, since all have started together
    std::optional<double> delay = {};  // they wait to start again already, so this uses no other restart; seconds
  };

  std::vector<job::Move> moves;  // all from one shell; at least one
  std::optional<All> all = {};   // none: only they start again

  [[nodiscard]] std::uint32_t from() const { return moves.front().from; }
  [[nodiscard]] value::Idset ranks() const;

  [[nodiscard]] std::string text() const;
  // In a job of so many shells and tasks. EINVAL: it is none.
  static Result<Replacement> parse(std::string_view text, std::uint32_t shells, std::uint64_t tasks);
};

// What the leader announces where all tasks start again, as another number of them (doc/protocol.md).
struct JobResize {
  value::Idset shells;                     // that have tasks from then on; at least one
  std::optional<std::uint32_t> lost = {};  // the shell whose loss is the cause; none: others have joined
  Replacement::All all;

  static constexpr std::string_view kTopic = "shell.resize";
  [[nodiscard]] std::string text() const;
  // In a job of so many shells. EINVAL: it is none.
  static Result<JobResize> parse(std::string_view text, std::uint32_t shells);
};

// What shells announce of tasks that have ended, and are to be started again (doc/protocol.md).
struct RestartEnd {
  value::Idset::Id rank = 0;
  std::uint32_t attempt = 1;                     // that has ended
  exits::Record record = exits::Record::lost();  // which has a status
  double ran = 0;                                // seconds
};

struct RestartMessage {
  std::uint32_t shell = 0;
  bool whole = false;            // all tasks of the job have to start again
  bool ordered = false;          // by `nacre restart`
  std::vector<RestartEnd> ends;  // none only if all have been ordered to start again
  std::uint64_t restarts = 0;    // of the job, when the leader answers such an order
  std::string why_not;           // of the leader's answer
  // Where tasks start again together: of the first of `ends`, which has failed first as far as its shell knows.
  // None: nobody has compared them.
  std::optional<exits::Origin> origin = {};
  std::string doubt;  // exits::doubt_of() it
  // With no-progress, unless all tasks of the job start again: what was seen (ProgressLook) of each of `ends`, or
  // one for all of them. None: it could not be seen.
  std::vector<std::string> seen = {};
  double at = 0;  // when, seconds since the Epoch

  static constexpr std::string_view kAsked = "shell.restart-asked";        // topics of the two announcements
  static constexpr std::string_view kAnswered = "shell.restart-answered";  // by the leader

  // In a job of so many shells. EINVAL: it is none.
  static Result<RestartMessage> parse(std::string_view bytes, std::uint32_t shells);
  [[nodiscard]] std::string asked() const;     // the text by which a shell asks
  [[nodiscard]] std::string answered() const;  // ... and the leader's answer where all tasks are to start again
};

// With where=spare: tasks of a shell whose wait is over, and that are to start on a spare.
struct SpareRequest {
  std::uint32_t shell = 0;
  bool together = false;  // they start on one shell (scope=node); else each for itself
  std::vector<std::pair<value::Idset::Id, std::uint32_t>> starts;  // rank, and the start that is due; at least one

  [[nodiscard]] std::string text() const;
  // In a job of so many shells and tasks. EINVAL: it is none.
  static Result<SpareRequest> parse(std::string_view bytes, std::uint32_t shells, std::uint64_t tasks);
};

// Where the tasks of a request start.
struct SparePlaces {
  std::vector<job::Move> moves = {};  // these have been noted in the job
  value::Idset stay = {};             // no spare can take them: they start where they were
  std::string why = {};               // ... "there is no spare left"
};

// Of ends that are alike: what has been decided.
struct RestartDecision {
  value::Idset ranks;
  exits::Record record;
  std::uint32_t attempt = 0;  // that begins
  double delay = 0;
  std::uint64_t first = 0, last = 0;  // restarts of the job, of those that the option has
  std::string why_not = {};           // empty: it is granted
  bool whole = false;                 // all tasks of the job start again
  value::Idset together = {};         // those that start, if not only `ranks` do
  value::Idset first_failed = {};     // of `ranks`: which has ended as `record`, where they start together
  std::string doubt = {};             // exits::doubt_of() that it was the first
  bool ordered = false;
  bool stands = true;  // false: something else came before what was asked
  // They are not to start again, and the job is to end; `why_not` has the words.
  bool ends_job = false;
  bool resizes = false;  // the job has other ranks from then on; `ranks` are of those before
  SparePlaces places =
      {};  // with where=spare, where all tasks of the job start again: those of the shell of `ranks`

  // It starts on another shell.
  [[nodiscard]] bool moves(value::Idset::Id rank) const {
    return std::any_of(places.moves.begin(), places.moves.end(),
                       [&](const job::Move& each) { return each.ranks.contains(rank); });
  }
  [[nodiscard]] bool is_granted() const { return stands && why_not.empty(); }
  [[nodiscard]] bool takes_in(const RestartDecision& next) const;
};

// How many restarts of tasks a job has left, and when each is due. All shells have one, and ask it for the same
// restarts in the same order, that of the log: so it answers all of them alike, and no two use the same one.
class Restarts {
 public:
  using Rank = value::Idset::Id;
  static constexpr double kSteady = 600;  // seconds: a task that has run for so long begins anew

  struct Limits {
    std::uint64_t job = 3;
    std::uint64_t per_task = std::numeric_limits<std::uint64_t>::max();
    double first = 1;     // seconds until the first restart of a task; ...
    double longest = 60;  // ... twice as long each time, up to this
  };
  struct Granted {
    std::uint64_t number = 0;  // of this restart in the job, from 1
    double delay = 0;          // seconds
  };

  explicit Restarts(Limits limits) : limits_(limits) {}

  // Of a task that has run for so many seconds. An error: there is none left; the message says of what.
  Result<Granted> take(Rank rank, double ran);
  // Of all tasks of the job together.
  Result<Granted> take_job(double ran) { return take_together(jobs_in_a_row_, ran); }
  // Of all tasks of a node.
  Result<Granted> take_node(std::uint32_t node, double ran) { return take_together(nodes_in_a_row_[node], ran); }

  // What has been granted so far, for a shell that joins the job, and begins with it.
  [[nodiscard]] Json json() const;
  Result<void> take(const JsonAt& at);

  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  struct Task {
    std::uint64_t used = 0;
    std::uint32_t in_a_row = 0;  // without a long run between them
  };

  static auto description();
  Result<Granted> take_together(std::uint32_t& in_a_row, double ran);
  [[nodiscard]] double next_delay(std::uint32_t& in_a_row, double ran) const;

  Limits limits_;
  std::uint64_t used_ = 0;
  std::map<Rank, Task> tasks_;
  std::uint32_t jobs_in_a_row_ = 0;
  std::map<std::uint32_t, std::uint32_t> nodes_in_a_row_;
};

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
  // no-progress from now on. It has to outlive this object.
  void watch(RestartProgress& progress) { progress_ = &progress; }

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
  // All tasks of the job start again on these shells, and on no others. Because of a loss that is a restart as any
  // other; because others have joined it uses none of those that the option has.
  std::optional<RestartDecision> decide_resize(const JobResize& resize);

 private:
  [[nodiscard]] bool stands(std::uint32_t shell, const RestartEnd& end) const;
  RestartDecision decide(const RestartMessage& asked, std::size_t which);
  void look_at(RestartDecision& decision, const RestartMessage& asked, value::Idset::Id rank,
               std::size_t which) const;
  [[nodiscard]] Result<std::uint32_t> spare_for(std::uint32_t shell, const value::Idset& ranks) const;
  [[nodiscard]] std::vector<job::Move> moves_of(const value::Idset& ranks, std::uint32_t from, std::uint32_t to,
                                                std::uint32_t more) const;
  void start_together(RestartDecision& decision, std::uint32_t shell);
  void note(const std::vector<job::Move>& moves);
  void take_restart(RestartDecision& decision, const Replacement::All& all);

  job::Job& job_;
  Restarts& restarts_;
  Stays stays_;
  std::optional<bool> shares_cores_;     // with where=spare
  RestartProgress* progress_ = nullptr;  // with no-progress
};

// The numbers by which the shells report starts and ends of tasks to their leader, where a task may be started
// again: rank R of N tasks has R at its first start, R + N at the second, R + 2 N at the third, ... So each start
// has an end of its own, and what comes late of an earlier start is known as such.
class Starts {
 public:
  using Idset = value::Idset;
  using Attempt = std::uint32_t;  // from 1

  // Of a job that never has more tasks than these, at least one.
  explicit Starts(std::uint64_t tasks) : tasks_(tasks) {}

  // The last start of a task that has a number.
  [[nodiscard]] Attempt most() const { return static_cast<Attempt>((Idset::kMaxId + std::uint64_t{1}) / tasks_); }
  // `attempt` is at most most(), `rank` less than the tasks.
  [[nodiscard]] Idset::Id number(Idset::Id rank, Attempt attempt) const {
    return static_cast<Idset::Id>(rank + (attempt - 1) * tasks_);
  }
  // The ranks by the start that these numbers name.
  [[nodiscard]] std::map<Attempt, Idset> ranks(const Idset& numbers) const;

 private:
  std::uint64_t tasks_;
};

// Which start of each rank counts.
class ExpectedStarts {
 public:
  using Idset = value::Idset;

  // From now on only this start of them counts; `attempt` is never less than before.
  void expect(const Idset& ranks, Starts::Attempt attempt);
  // Those of `ranks` of which this start counts.
  [[nodiscard]] Idset current(const Idset& ranks, Starts::Attempt attempt) const;

 private:
  std::map<Starts::Attempt, Idset> later_;  // by the start, the second or later; disjoint
};

}  // namespace nacre::elastic
