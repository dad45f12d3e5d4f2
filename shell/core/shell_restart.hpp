// SPDX-License-Identifier: Apache-2.0
//
// The option restart, as one shell has it. The end of a task that is to be started again is kept back: plugins and
// policies do not see it yet. Its shell announces the end; in the order of the log all shells ask elastic::Recovery
// alike, which grants a restart or has none left: so the limits are the whole job's.
//
//   ended -> asked -+-> granted -> due, once its time is over -> started, with where=spare perhaps elsewhere
//                   `-> refused: its end is one as any other
//
// Where all tasks have to start again together (scope=job, or PMI), the leader answers (RestartAnswers), also if
// the tasks of a lost shell are the reason (ShellReplace). With scope=node the shell itself decides: once one of
// its tasks has asked, the ends of its other tasks are kept back with it.
//
// Once the job ends, or this shell leaves it, nothing starts again; the last end of a task is its record.
#pragma once

#include "core/shell_group.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "elastic/progress.hpp"
#include "elastic/recovery.hpp"
#include "event/loop.hpp"
#include "exits/blame.hpp"
#include "exits/job_end.hpp"
#include "exits/record.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"
#include "plugin/registration.hpp"
#include "task/subprocess.hpp"
#include "task/task.hpp"

namespace nacre::core {

// What no-progress of the option restart looks at, on one shell: numbers that its tasks have written, a file, or
// what a command prints. Relative names start at the job's working directory, which is the shell's.

// The name that a link leads to, size and time of a file or directory, as text; "not there". An error: it cannot be
// looked at.
[[nodiscard]] Result<std::string> look_at_file(const std::string& path);
// What a command has printed, as far as messages have room for it; the rest as its length and a fingerprint.
[[nodiscard]] std::string short_print(std::string_view printed);

class ShellProgress {
 public:
  static constexpr event::Seconds kMostTime{10};  // of the command

  // `host` has to outlive it; `option` has no_progress.
  ShellProgress(plugin::Host& host, job::RestartOption option)
      : host_(host), noted_(std::move(option)), command_(host.loop(), host.children()) {}

  [[nodiscard]] elastic::RestartProgress& noted() { return noted_; }
  [[nodiscard]] bool is_of_output() const { return option().look == job::RestartOption::NoProgress::Look::output; }

  // Looks now. `seen` is called once, perhaps before this returns: with what there is, "" for numbers; none: it
  // cannot be looked at, which is logged. Calls that come while a command runs get what that command prints.
  using WhenSeen = std::function<void(const std::optional<std::string>& what)>;
  void look(WhenSeen seen);
  // The largest number that these have written, of those that are tasks of this shell; "": none.
  [[nodiscard]] std::string number_of(const value::Idset& ranks) const;

 private:
  [[nodiscard]] const job::RestartOption::NoProgress& option() const { return *noted_.option().no_progress; }
  void run();
  void tell(const Result<std::string>& what);

  plugin::Host& host_;
  elastic::RestartProgress noted_;
  std::vector<WhenSeen> waiting_;
  task::CommandRun command_;
};

// What ShellRestart has of tasks that have ended, and are to be started again.

// An end that is kept back.
struct KeptEnd {
  // moving: its wait is over, and where it starts is still to be decided (where=spare)
  enum class State : std::uint8_t { asked, waiting, moving, due, starting, together };

  task::Task* task;  // that has ended
  exits::Record record;
  exits::FailureFacts failure;  // why it has ended so
  bool whole = false;           // only all tasks of the job can start again
  bool ordered = false;         // by nacre restart
  State state = State::asked;
  std::uint32_t attempt = 0;   // once it is granted: the next start
  std::uint64_t restarts = 0;  // of the job by then
  std::optional<event::Timer> timer = {};
};

// Tasks that go to a spare, or come to this shell (where=spare, on-lost=replace).
struct MovingTasks {
  using Rank = value::Idset::Id;

  std::vector<Rank> unsent = {};  // whose wait is over
  // Signals that end tasks and have come since then, by rank: they are sent to the task once it runs there.
  std::map<Rank, std::set<int>> late = {};
  std::map<Rank, std::set<int>> coming = {};  // the same for tasks that come to this shell, until they start
  std::function<void(const std::vector<job::Move>&)> moved = {};
  std::uint32_t last = 0;  // the last shell that had tasks before a restart of all moved some: it also takes part

  [[nodiscard]] std::set<int> take_late(Rank rank) {
    auto found = late.extract(rank);
    return found.empty() ? std::set<int>() : found.mapped();
  }
};

[[nodiscard]] inline std::string when_of(const elastic::RestartDecision& decision) {
  return decision.delay > 0 ? "in " + value::Duration::of_seconds(decision.delay).str() : "now";
}

// What `nacre restart` orders, on one shell. The leader's plugin control announces it; in the order of the log each
// shell ends those of its tasks that are named: SIGTERM, and SIGKILL after the grace. ShellRestart then starts them
// again, however they have ended, and without using up one of the option's restarts.
//
// Which tasks cannot start again is announced to the leader, with the reason; these run on.
class RestartOrders {
 public:
  using Rank = value::Idset::Id;
  static constexpr std::string_view kOrdered = "shell.restart-order";    // doc/protocol.md
  static constexpr std::string_view kRefused = "shell.restart-refused";  // doc/protocol.md

  struct Calls {
    // Whether all tasks have to start with this one; an error: it cannot start again.
    std::function<Result<bool>(const task::Task&)> takes_all;
    std::function<void()> order_all;
    // Sends the signal to these tasks, as one of the shell itself.
    std::function<void(int signum, const value::Idset& ranks)> kill;
  };

  // Both have to outlive it.
  RestartOrders(plugin::Host& host, ShellTasks& tasks) : host_(host), tasks_(tasks) {}
  void serve(Calls calls, event::Seconds grace);

  // The ranks of an order; none: all tasks, together.
  static Result<std::optional<value::Idset>> parse(std::string_view bytes);

  // Ends those of `ranks` that are on this shell.
  void end(const value::Idset& ranks);
  void refuse(const value::Idset& ranks, const std::string& why) const;

  [[nodiscard]] bool has(Rank rank) const { return ordered_.contains(rank); }
  // The task has ended, or nothing starts again.
  void drop(Rank rank) { ordered_.erase(rank); }
  void drop_all() { ordered_.clear(); }

 private:
  [[nodiscard]] std::string why_not(const task::Task& task, bool& takes_all) const;
  Result<void> begin(Rank rank);

  plugin::Host& host_;
  ShellTasks& tasks_;
  Calls calls_;
  event::Seconds grace_{};
  std::map<Rank, event::Timer> ordered_;  // tasks that are being ended; when they get SIGKILL
};

// Whether a task of this shell that has ended starts again, by the option restart and by how it has ended; and
// whether it can do so alone. After an end by a signal that a user has sent it does not start again.
class RestartRules {
 public:
  using Rank = value::Idset::Id;

  // All have to outlive it.
  RestartRules(plugin::Host& host, const ShellTasks& tasks, const job::RestartOption& option)
      : host_(host), tasks_(tasks), option_(option) {}

  // Whether a sender of this signal wants the task to end, however the task does so.
  [[nodiscard]] static bool is_to_end(int signum);
  void note_signal(Rank rank, int signum) { signals_[rank].insert(signum); }
  void forget_signals(Rank rank) { signals_.erase(rank); }  // those from now on count

  // `is_ordered`: nacre restart has ended it.
  [[nodiscard]] bool wants(const task::Task& task, bool is_ordered) const;
  // Whether all tasks of the job have to start with this one; an error: it cannot start again.
  [[nodiscard]] Result<bool> takes_all(const task::Task& task) const;
  // Whether PMI, or the plugin `by` of it, demands that; an error: the task cannot start again.
  [[nodiscard]] Result<bool> pmi_takes_all(Rank rank, std::string_view by = "") const;

 private:
  [[nodiscard]] bool is_chosen(const exits::Record& record) const;
  [[nodiscard]] std::string why_not_node() const;

  plugin::Host& host_;
  const ShellTasks& tasks_;
  const job::RestartOption& option_;
  std::map<Rank, std::set<int>> signals_;  // that were sent to the task since its start
};

// Where all tasks of a job have to start again together the leader answers what a shell asks, by an announcement:
// it alone knows which tasks have ended for good. Until all have been started, and while it is to be decided what
// becomes of the tasks of a lost shell, nothing is answered.
class RestartAnswers {
 public:
  using Message = elastic::RestartMessage;

  // All have to outlive it.
  RestartAnswers(plugin::Host& host, ShellGroup& shells, const ShellTasks& tasks, const RestartRules& rules,
                 const RestartOrders& orders, const exits::JobEnd& end)
      : host_(host), shells_(shells), tasks_(tasks), rules_(rules), orders_(orders), end_(end) {}

  // `is_under_way`: all tasks of the job, or of this shell, are about to start again.
  void serve(std::function<bool()> is_under_way) { is_under_way_ = std::move(is_under_way); }

  void all_started();
  // A shell has asked, and only the leader answers. All remember it, as another one may come to lead.
  void note_asked(const Message& message);
  // This shell has come to lead, and answers what is open.
  void take_over();
  void loss_opens(group::Rank shell) { losses_.insert(shell); }
  void loss_closes(group::Rank shell);
  // All have started together.
  void note_start();
  [[nodiscard]] double ran() const;  // seconds since then

  // An end after which all tasks have to start again. If it was compared with other ends of its shell, the leader
  // waits for ends on other shells that may have come before it.
  void answer(const Message& message);
  // `nacre restart` of all tasks. If a restart of all is announced already, it is also the answer to the order.
  void answer_order();
  void order_answered() { order_is_answered_ = false; }  // the announcement has come back

  // "": all tasks can start again.
  [[nodiscard]] std::string why_not() const;
  // They run, and nothing is under way.
  [[nodiscard]] bool is_quiet() const { return all_started_ && losses_.empty() && !is_under_way_(); }

 private:
  static constexpr event::Seconds kSettle{0.1};

  void settle();
  [[nodiscard]] bool is_open(const Message& message) const;  // the start that it is about still counts
  void send_answer(const Message& message);
  void send(const Message& answer);

  plugin::Host& host_;
  ShellGroup& shells_;
  const ShellTasks& tasks_;
  const RestartRules& rules_;
  const RestartOrders& orders_;
  const exits::JobEnd& end_;
  std::function<bool()> is_under_way_;
  bool all_started_ = false;
  value::Idset losses_;              // shells
  std::vector<Message> unanswered_;  // until then
  std::vector<Message> asked_;       // what another shell, which leads, is to answer
  struct Held {
    Message message;
    event::Seconds at;  // when it came
  };
  std::vector<Held> held_;  // for kSettle
  std::optional<event::Timer> settle_timer_;
  bool order_waits_ = false;        // an order of `nacre restart` for all tasks waits
  bool order_is_answered_ = false;  // and its answer has not come back yet
  event::Seconds began_{};          // when all tasks have started together
};

// What users and plugins get to know of restarts: the leader raises an exception of severity 2 for each, whose
// message is a line in its log; all shells call job.tasks-restart.
class RestartReports {
 public:
  // Both have to outlive it.
  RestartReports(plugin::Host& host, ShellGroup& shells) : host_(host), shells_(shells) {}

  void set_most(std::uint64_t restarts) { most_ = restarts; }  // how many there may be (option `restart`)

  // What has been decided about tasks of this shell. `later`: what follows is known only once let_out() is called.
  void decided(group::Rank shell, const elastic::RestartDecision& decision, bool later = false);
  void let_out();
  void drop() { held_.clear(); }
  // They have ended like this, and do not start again.
  void refused(const value::Idset& ranks, group::Rank shell, const exits::Record& record,
               std::string_view why) const;

 private:
  void notify(group::Rank shell, const elastic::RestartDecision& decision) const;
  void raise(const std::string& message) const { host_.raise({"restart", 2, message, std::nullopt}); }
  [[nodiscard]] std::string line_of(group::Rank shell, const elastic::RestartDecision& decision) const;
  void ordered(group::Rank shell, const elastic::RestartDecision& decision) const;

  plugin::Host& host_;
  ShellGroup& shells_;
  std::uint64_t most_ = 0;
  std::string held_;  // a line
};

// What a shell announces to ask for restarts of its tasks: ends that it keeps back, each with how long the task
// ran; and that all tasks are to start again.
class RestartRequests {
 public:
  using Rank = value::Idset::Id;
  using KeptEnds = std::map<Rank, KeptEnd>;
  using Refuse = std::function<void(Rank)>;
  // With no-progress: adds what is seen of these ends.
  using Look = std::function<void(elastic::RestartMessage&)>;

  // It has to outlive this object.
  explicit RestartRequests(plugin::Host& host) : host_(host) {}

  // Tasks that are asked for alone start again with all tasks of this shell (scope=node).
  void take_node() { takes_node_ = true; }
  void started(Rank rank);
  void add(Rank rank) { unsent_.push_back(rank); }  // its end is to be announced
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  // Announces those of the ends that `kept` still has as asked. `refuse` is called for those that cannot be
  // announced.
  void send(const KeptEnds& kept, const Look& look, const Refuse& refuse);
  // For nacre restart: asks for all tasks of the job.
  void order_all();

 private:
  [[nodiscard]] elastic::RestartMessage message_of(const KeptEnds& kept, bool whole, bool ordered,
                                                   std::vector<Rank> ranks) const;

  plugin::Host& host_;
  std::map<Rank, event::Seconds> started_;  // when
  std::vector<Rank> unsent_;
  bool takes_node_ = false;
};

// A restart of all tasks of the job, or of this shell, that is under way: it ends the tasks of this shell, waits
// until those of the other shells have ended, then for the delay. With where=spare it may be decided after that
// where they start.
class RestartTogether {
 public:
  struct Plan {
    std::uint64_t restarts;       // of the job, with this one
    double delay;                 // seconds
    bool is_node = false;         // of this shell only: no others are waited for
    std::uint32_t last = 0;       // otherwise: the last shell that takes part
    bool ordered = false;         // by nacre restart, or as others have joined: the tasks have not failed
    std::uint32_t failed_on = 0;  // the shell of the task that has failed first, ...
    exits::TaskEnd failed = {};   // ... and that task
  };
  struct Calls {
    std::function<void(int signum)> kill;  // to the tasks of this shell, as the shell itself
    // They have ended: enter() is to be called.
    std::function<void()> ended;
    // The tasks of the other shells have ended, too, and `given` is what these shells have given. Returns whether
    // all are to start.
    std::function<bool(const plugin::Gathered& given)> may_start;
    std::function<void()> over;  // the delay is over
  };

  // Host and tasks have to outlive it.
  RestartTogether(plugin::Host& host, const ShellTasks& tasks, Plan plan, Calls calls);

  [[nodiscard]] const Plan& plan() const { return plan_; }
  void end_tasks(event::Seconds grace);  // unless the job ends; `grace`: between SIGTERM and SIGKILL
  [[nodiscard]] bool ends_tasks() const { return timer_.has_value(); }  // it has begun to
  void task_ended();
  void enter(std::string mine);  // waits for the other shells, to which it gives `mine`
  // Another restart of all has come before the tasks have started: nobody waits for their ends any more.
  void leave();

  // ---- once the delay is over
  void set_due() { state_ = State::due; }
  [[nodiscard]] bool is_due() const { return state_ == State::due; }
  void set_moving() { state_ = State::moving; }  // where they start is still to be decided
  [[nodiscard]] bool is_moving() const { return state_ == State::moving || state_ == State::asked; }
  // True: it has to be asked now.
  bool begin_asking();

 private:
  enum class State : std::uint8_t { waiting, moving, asked, due };

  void wait_for_others();
  void wait_for_delay();

  plugin::Host& host_;
  const ShellTasks& tasks_;
  Plan plan_;
  Calls calls_;
  State state_ = State::waiting;
  bool waits_ = false;                 // for the other shells, then for the delay
  bool has_entered_ = false;           // waits_ for the other shells
  std::optional<event::Timer> timer_;  // until SIGKILL; then for the delay
  plugin::Registration others_ended_;
};

class ShellRestart {
 public:
  // All have to outlive it. `job`: that of `host`.
  ShellRestart(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellShrink& shrink, ShellTasks& tasks,
               const exits::JobEnd& end)
      : host_(host), job_(job), shells_(shells), shrink_(shrink), tasks_(tasks), end_(end) {}

  // Once the options are final. An error: restart is wrong, or not possible.
  Result<void> serve();
  void finished() { finished_ = true; }  // the tasks of this shell have ended for good
  void take_over() {                     // this shell has come to lead
    if (recovery_) answers_.take_over();
  }
  [[nodiscard]] RestartAnswers& answers() { return answers_; }                            // the leader's
  [[nodiscard]] std::optional<elastic::Restarts>& granted_so_far() { return restarts_; }  // none: the option is off
  [[nodiscard]] elastic::RestartProgress* progress_so_far() {  // null: there is no no-progress
    return progress_ ? &progress_->noted() : nullptr;
  }

  [[nodiscard]] bool is_idle() const { return kept_.empty() && !together_; }  // no end of a task is kept back
  [[nodiscard]] bool is_due() const;                                          // there are tasks to be started now
  // All tasks of the job, or of this shell, are about to start again.
  [[nodiscard]] bool is_together() const { return together_.has_value(); }
  // Starts the tasks that are due, unless the job ends. To be called in a phase only: `wait_for_holds` runs the
  // loop until plugins are ready.
  Result<void> start_due(const std::function<void()>& wait_for_holds);
  // Starts the tasks that were not started. If all are to start again by then, they end at once.
  Result<void> start_tasks();

  // ---- tasks of a lost shell that start elsewhere (shell_restart.cpp)
  // Leader: whether all tasks have to start again with them; an error: they cannot. `connected`: to PMI.
  [[nodiscard]] Result<bool> takes_all_with_lost(const value::Idset& connected) const;
  [[nodiscard]] elastic::Replacement::All all_with_lost() const;
  // On every shell, when it is announced: the tasks are there now, and all are about to start again, if that is
  // granted.
  std::optional<elastic::RestartDecision> start_with_lost(const elastic::Replacement& what);

  // ---- the job is resized
  // The same for a resize.
  std::optional<elastic::RestartDecision> start_resized(const elastic::JobResize& what);
  // Leader: is called once all have started together.
  void when_started(std::function<void()> receive) { on_started_ = std::move(receive); }

  // ---- tasks that have ended start elsewhere (shell_restart.cpp)
  [[nodiscard]] bool may_take(group::Rank shell) const;  // tasks of a lost shell
  void come(const value::Idset& ranks);                  // to this shell
  // `take` is called on every shell when moves are decided.
  void when_moved(std::function<void(const std::vector<job::Move>&)> take) { moving_.moved = std::move(take); }

 private:
  using Rank = value::Idset::Id;
  // How long to wait for failures that others have followed from, where all tasks start again together.
  static constexpr event::Seconds kSettle{0.15};
  static constexpr std::string_view kToSpare = "shell.restart-to-spare";
  using State = KeptEnd::State;
  using Message = elastic::RestartMessage;
  using Decision = elastic::RestartDecision;

  bool keep(task::Task& task);
  void look_and_ask();
  void ask();
  void keep_asking(task::Task& task, const exits::Record& record, bool whole, bool is_ordered);
  void signalled(int signum, const group::Targets& tasks);
  void announced(const Message& message);
  void granted(Rank rank, const Decision& decision);
  void refused(Rank rank);
  void started(const task::Task& task);
  void drop(Rank rank);
  void drop_all();

  // With where=spare (shell_restart.cpp).
  [[nodiscard]] bool asks_for_spares() const;
  void wait_is_over(Rank rank);
  void wait_together_is_over();
  void ask_for_spares();
  void ask_for_spare_together();
  void asked_for_spare(std::string_view bytes);
  void placed(Rank rank, const elastic::SparePlaces& places);
  void placed_together(const elastic::SparePlaces& places);

  // By nacre restart.
  void serve_orders();
  void ordered(std::string_view bytes);
  void answered_order(const Message& message);

  // All tasks of the job, or of this shell, together (shell_restart.cpp).
  [[nodiscard]] bool waits_together() const {
    return together_ && !together_->plan().is_node && !together_->is_due();
  }
  [[nodiscard]] bool asks_for_node() const;
  void decide_together(const Message& message);
  void begin_together(const Decision& decision, group::Rank shell);
  void raise_finished(const Decision& decision);
  void keep_together(task::Task& task);
  void drop_node();
  Result<void> start_together(const std::function<void()>& wait_for_holds);
  value::Idset renew_together();
  value::Idset renumber();

  // With no-progress (shell_restart.cpp).
  void look_at_ends(Message& asked);
  void ended_together();
  bool may_start_together(const plugin::Gathered& given);
  void raise_no_progress(const exits::TaskEnd& failed, const std::string& message);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellTasks& tasks_;
  const exits::JobEnd& end_;
  job::RestartOption option_;
  RestartRules rules_{host_, tasks_, option_};
  RestartOrders orders_{host_, tasks_};
  RestartAnswers answers_{host_, shells_, tasks_, rules_, orders_, end_};
  RestartReports reports_{host_, shells_};
  RestartRequests requests_{host_};
  std::optional<elastic::Restarts> restarts_;  // none: the option is off
  std::optional<elastic::Recovery> recovery_;  // none: the option is off
  std::optional<ShellProgress> progress_;      // with no-progress
  std::optional<std::string> seen_;  // with no-progress: what was seen by the look at the ends that are to be
                                     // announced
  std::optional<std::string> no_progress_;  // leader: why the job ends instead of starting all tasks again
  event::Seconds grace_{};                  // between SIGTERM and SIGKILL
  bool signals_itself_ = false, is_starting_ = false, finished_ = false;
  bool has_looked_ = false;  // leader, with no-progress: since all tasks have started
  std::map<Rank, KeptEnd> kept_;
  std::map<Rank, exits::Record> before_answer_;  // recorded as the job ended, before what was asked was answered
  std::optional<RestartTogether> together_;
  MovingTasks moving_;
  std::optional<event::Timer> last_kill_;  // of tasks that were being ended when their restart was cancelled
  std::optional<event::Timer> turn_;
  std::function<void()> on_started_;
  plugin::Registration announced_;
};

}  // namespace nacre::core
