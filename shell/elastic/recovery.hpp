// SPDX-License-Identifier: Apache-2.0
//
// Which tasks of a job start again, where, and as which start: all shells decide this alike, as each has these
// objects and asks them the same questions in the order of the log. Decisions are noted in the job at once. Nothing
// is started here.
#pragma once

#include "elastic/progress.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "job/job.hpp"

namespace nacre::elastic {

// Where the tasks of a lost shell start again, as the leader decides it: on a spare, or spread over other shells. A
// spare is promised to one lost shell until the log has the decision. It is free again if the decision does not
// count because something else came before it. The same is true of room on other shells.
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
    std::uint64_t room = 0;   // how many more tasks it can have
  };

  // What the slots of these tasks have, but at most what their node has, and no cores if tasks may share them.
  static Room needed(const job::Job& job, std::uint32_t shell, const value::Idset& ranks, bool shares_cores);

  // The first of `spares` that is not promised and has what is needed. All of `spares` are alive and have no tasks.
  // ENOENT: there is none; the message says why: "there is no spare left".
  Result<std::uint32_t> choose(std::span<const Spare> spares, Room needed);
  // A shell for each of `tasks` tasks: each goes to the shell with the fewest tasks that has room; of equal ones to
  // the first. ENOSPC: not all find room; the message says how many: "the other shells have room for 1 of 2 tasks".
  Result<std::vector<std::uint32_t>> spread(std::span<const Other> others, std::uint64_t tasks);
  // The log has the decision that `tasks` tasks go to this shell, whether it counts or not.
  void ordered(std::uint32_t shell, std::uint64_t tasks);

 private:
  value::Idset promised_;
  std::map<std::uint32_t, std::uint64_t> coming_;  // tasks, by shell
};

// The leader's announcement about the tasks of a lost shell that start again elsewhere (doc/protocol.md).
struct Replacement {
  // All tasks of the job start again with them.
  struct All {
    std::uint64_t restarts = 0;        // of the job, when the leader has decided it
    double ran = 0;                    // seconds, since all have started together
    std::optional<double> delay = {};  // set if they wait to start again already, so that this uses no other
                                       // restart; seconds
  };

  std::vector<job::Move> moves;  // all from one shell; at least one
  std::optional<All> all = {};   // none: only these tasks start again

  [[nodiscard]] std::uint32_t from() const { return moves.front().from; }
  [[nodiscard]] value::Idset ranks() const;

  [[nodiscard]] std::string text() const;
  // For a job with so many shells and tasks. EINVAL: it is no such text.
  static Result<Replacement> parse(std::string_view text, std::uint32_t shells, std::uint64_t tasks);
};

// The leader's announcement that all tasks start again, as another number of them (doc/protocol.md).
struct JobResize {
  value::Idset shells;                     // that have tasks from then on; at least one
  std::optional<std::uint32_t> lost = {};  // the shell whose loss is the cause; none: others have joined
  Replacement::All all;

  static constexpr std::string_view kTopic = "shell.resize";
  [[nodiscard]] std::string text() const;
  // For a job with so many shells. EINVAL: it is no such text.
  static Result<JobResize> parse(std::string_view text, std::uint32_t shells);
};

// What shells announce about tasks that have ended, and are to be started again (doc/protocol.md).
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
  // If tasks start again together: the origin of the first of `ends`, which has failed first as far as its shell
  // knows. None: nobody has compared them.
  std::optional<exits::Origin> origin = {};
  std::string doubt;  // exits::doubt_of() it
  // With no-progress, unless all tasks of the job start again: what was seen (ProgressLook) for each of `ends`, or
  // one value for all. None: it could not be seen.
  std::vector<std::string> seen = {};
  double at = 0;  // when, seconds since the Epoch

  static constexpr std::string_view kAsked = "shell.restart-asked";        // topics of the two announcements
  static constexpr std::string_view kAnswered = "shell.restart-answered";  // by the leader

  // For a job with so many shells. EINVAL: it is no such text.
  static Result<RestartMessage> parse(std::string_view bytes, std::uint32_t shells);
  [[nodiscard]] std::string asked() const;     // the text by which a shell asks
  [[nodiscard]] std::string answered() const;  // ... and the leader's answer where all tasks are to start again
};

// With where=spare: tasks of a shell whose wait is over, and that want to start on a spare.
struct SpareRequest {
  std::uint32_t shell = 0;
  bool together = false;  // they start on one shell (scope=node); otherwise each by itself
  std::vector<std::pair<value::Idset::Id, std::uint32_t>> starts;  // rank, and the start that is due; at least one

  [[nodiscard]] std::string text() const;
  // For a job with so many shells and tasks. EINVAL: it is no such text.
  static Result<SpareRequest> parse(std::string_view bytes, std::uint32_t shells, std::uint64_t tasks);
};

// Where the tasks of a request start.
struct SparePlaces {
  std::vector<job::Move> moves = {};  // these have been noted in the job
  value::Idset stay = {};             // no spare can take them: they start where they were
  std::string why = {};               // ... "there is no spare left"
};

// The decision about ends that are decided alike.
struct RestartDecision {
  value::Idset ranks;
  exits::Record record;
  std::uint32_t attempt = 0;  // that begins
  double delay = 0;
  std::uint64_t first = 0, last = 0;  // which of the option's restarts these are
  std::string why_not = {};           // empty: it is granted
  bool whole = false;                 // all tasks of the job start again
  value::Idset together = {};         // the tasks that start, if more than `ranks` do
  value::Idset first_failed = {};     // if they start together: which of `ranks` has ended as `record`
  std::string doubt = {};             // exits::doubt_of() that it was the first
  bool ordered = false;
  bool stands = true;  // false: something else came before the request
  // They are not to start again, and the job is to end; `why_not` has the words.
  bool ends_job = false;
  bool resizes = false;  // the job has other ranks from then on; `ranks` are the former ones
  SparePlaces places =
      {};  // with where=spare, where all tasks of the job start again: those of the shell of `ranks`

  // Whether the task starts on another shell.
  [[nodiscard]] bool moves(value::Idset::Id rank) const {
    return std::any_of(places.moves.begin(), places.moves.end(),
                       [&](const job::Move& each) { return each.ranks.contains(rank); });
  }
  [[nodiscard]] bool is_granted() const { return stands && why_not.empty(); }
  [[nodiscard]] bool takes_in(const RestartDecision& next) const;
};

// How many restarts of tasks a job has left, and when each is due. Each shell has one, and asks it for the same
// restarts in the order of the log: so all get the same answers, and no restart is used twice.
class Restarts {
 public:
  using Rank = value::Idset::Id;
  static constexpr double kSteady = 600;  // seconds: the doubling begins anew for a task that has run this long

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

  // For a task that has run for `ran` seconds. An error: there is no restart left; the message says of what.
  Result<Granted> take(Rank rank, double ran);
  // For all tasks of the job together. `failed`: the task whose end is why, which pays for it; none: a lost shell
  // is.
  Result<Granted> take_job(double ran, std::optional<Rank> failed) {
    return take_together(jobs_in_a_row_, ran, failed);
  }
  // For all tasks of a node.
  Result<Granted> take_node(std::uint32_t node, double ran, Rank failed) {
    return take_together(nodes_in_a_row_[node], ran, failed);
  }

  // What was granted so far, for a shell that joins the job and starts with it.
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
  Result<Task*> task_with_restart_left(Rank rank);
  Result<Granted> take_together(std::uint32_t& in_a_row, double ran, std::optional<Rank> failed);
  [[nodiscard]] double next_delay(std::uint32_t& in_a_row, double ran) const;

  Limits limits_;
  std::uint64_t used_ = 0;
  std::map<Rank, Task> tasks_;
  std::uint32_t jobs_in_a_row_ = 0;
  std::map<std::uint32_t, std::uint32_t> nodes_in_a_row_;
};

class Recovery {
 public:
  // Whether tasks may start on a shell, according to the log so far: it is in the job, and stays, and the job is
  // not to end.
  using Stays = std::function<bool(std::uint32_t shell)>;

  // Both have to outlive it.
  Recovery(job::Job& job, Restarts& restarts, Stays stays)
      : job_(job), restarts_(restarts), stays_(std::move(stays)) {}

  // From now on where=spare. `shares_cores`: tasks may share cores.
  void use_spares(bool shares_cores) { shares_cores_ = shares_cores; }
  // From now on no-progress. `progress` has to outlive this object.
  void watch(RestartProgress& progress) { progress_ = &progress; }

  // Tasks that start again by themselves: consecutive ends that are decided alike are one decision. None if all
  // tasks of the job have to start again, which the leader answers. `fallen`: something came before.
  struct Alone {
    std::vector<RestartDecision> decisions;
    value::Idset fallen;
  };
  Alone decide(const RestartMessage& asked);
  // All tasks of the job, or of the shell that has asked, start together. With where=spare, when it is all tasks of
  // the job, those of the shell that has asked go to a spare that can take them.
  RestartDecision decide_together(const RestartMessage& message);
  // All tasks of the job, for nacre restart; none: some have started again since the leader has sent this answer,
  // so it has to answer again.
  std::optional<RestartDecision> decide_order(const RestartMessage& answer);

  // With where=spare: where these tasks start. They go to the shell that others of their shell have gone to, if it
  // has room, otherwise to the first spare that can take them. A task in neither list of the answer does not wait
  // any more at this place in the log.
  SparePlaces place(const SpareRequest& asked);

  // Whether tasks of a lost shell may go there: with where=spare others may have come before them.
  [[nodiscard]] bool may_take(std::uint32_t shell) const {
    return stays_(shell) && (!shares_cores_ || job_.is_spare(shell));
  }

  // Tasks of a lost shell go to others. Returns the moves that have an effect: no tasks go to a shell that does not
  // stay.
  static std::vector<job::Move> move(job::Job& job, std::vector<job::Move> moves, const Stays& stays);
  // The same, and all tasks of the job start again with them; one decision grants both or neither. None: something
  // has come before it, so nothing has an effect, and the leader decides again.
  std::optional<RestartDecision> decide_replacement(const Replacement& replacement);
  // All tasks of the job start again on exactly these shells. If a loss is the cause this is a restart like any
  // other; if others have joined it uses none of the option's restarts.
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
// has its own end, and late reports about an earlier start are known as such.
class Starts {
 public:
  using Idset = value::Idset;
  using Attempt = std::uint32_t;  // from 1

  // For a job that never has more than `tasks` tasks; at least one.
  explicit Starts(std::uint64_t tasks) : tasks_(tasks) {}

  // The highest start of a task that has a number.
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

// Tracks which start of each rank counts.
class ExpectedStarts {
 public:
  using Idset = value::Idset;

  // From now on only this start of these ranks counts; `attempt` never decreases.
  void expect(const Idset& ranks, Starts::Attempt attempt);
  // Those of `ranks` for which this start counts.
  [[nodiscard]] Idset current(const Idset& ranks, Starts::Attempt attempt) const;

 private:
  std::map<Starts::Attempt, Idset> later_;  // by the start, the second or later; disjoint
};

}  // namespace nacre::elastic
