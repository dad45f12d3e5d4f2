// SPDX-License-Identifier: Apache-2.0
//
// exit-on-error: tasks that fail end the job. How many failures that takes is the option's value, or its member
// `when` (job::FailureLimit). `ranks` and `codes` select the failures that count. `grace` is how much later the job
// ends, and `then` whether it ends at all.
//
// Shell 0 judges by the ends of all tasks. If the first failure ends the job at once, each shell also judges its
// own tasks, before the other shells know of them. The failure of a task that has only lost another one
// (exits::Origin::peer) waits for a moment, so that the other task's failure ends the job.

#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugin/questions.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class ExitOnError final : public plugin::Plugin {
 public:
  explicit ExitOnError(plugin::Host& host) : Plugin("exit-on-error"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("task.exit", [this] {
      const task::Task& task = *host_.current_task();
      return task.starts_again() ? Result<void>() : task_exited(task);
    });
    on<plugin::TasksExited>([this](const plugin::TasksExited& exited) { return tasks_exited(exited); });
    on("job.resized", [this] { return read(); });  // the limit may be a share of the tasks
    on("shell.tasks-complete", [this] {
      timer_.reset();
      settle_timer_.reset();
    });
  }

 private:
  using Rank = value::Idset::Id;

  Result<void> read() {
    auto option = host_.options().at(name());
    if (!option) return {};
    if (option->json().is_object()) CHECK_OK(read_members(*option));
    auto when = host_.options().value_at(name());
    limit_ = when ? TRY(job::failure_limit_option(*when, host_.job().tasks())) : job::FailureLimit{1, false};
    return {};
  }

  Result<void> read_members(const JsonAt& option) {
    CHECK_OK(option.only_keys({"when", "ranks", "codes", "grace", "then"}));
    if (auto ranks = TRY(option.find("ranks"))) ranks_ = TRY(ranks_in(*ranks));
    if (auto codes = TRY(option.find("codes"))) codes_ = TRY(job::exit_codes_option(*codes));
    if (auto grace = TRY(option.find("grace"))) {
      grace_ = TRY(job::seconds_option(*grace));
      if (grace_.is_infinite()) return grace->expected("a time that is over some day; `then` can be \"note\"");
    }
    auto then = TRY(option.find("then"));
    if (then && then->json() != "end" && then->json() != "note") return then->expected("end or note");
    notes_ = then && then->json() == "note";
    return {};
  }

  // Ranks that the job does not have would never fail.
  Result<std::optional<value::Idset>> ranks_in(const JsonAt& option) {
    auto ranks = TRY(job::ranks_option(option, host_.job().tasks()));
    if (ranks && ranks->empty()) return option.expected("at least one rank");
    return ranks;
  }

  // A failure on this shell may end the job at once.
  Result<void> task_exited(const task::Task& task) {
    exits::Record record = exits::Record::of(task.status());
    if (!is_at_once() || is_reached_ || !counts(record) || !concerns(static_cast<Rank>(task.rank()))) return {};
    here_.push_back(plugin::failure_of(host_, task, record));
    if (here_.back().origin == exits::Origin::peer) {
      if (!settle_timer_) settle(kSettle, [this] { judge_here(); });
      return {};
    }
    host_.children().reap();  // which may call this function
    judge_here();
    return {};
  }

  [[nodiscard]] bool is_at_once() const {
    return limit_.tasks == 1 && !limit_.first_only && !notes_ && grace_.seconds() <= 0;
  }

  void judge_here() {
    if (is_reached_) return;
    exits::Blame blame = exits::first_of(here_);
    const exits::FailureFacts& first = here_[blame.first];
    reached(first.rank, first.record, value::Idset::range(first.rank, first.rank),
            exits::doubt_of(blame.is_certain, first.origin, blame.others));
  }

  void settle(event::Seconds time, std::function<void()> act) {
    auto timer = event::Timer::create(host_.loop(), act);
    if (!timer) return act();
    settle_timer_ = *std::move(timer);
    settle_timer_->unref();
    settle_timer_->start(time);
  }

  // On shell 0. `tolerate-loss` decides about lost tasks, and a task that could not be started has its own message.
  void tasks_exited(const plugin::TasksExited& exited) {
    if (limit_.tasks == 0) return;
    const exits::Record record = exited.record;
    const value::Idset ranks = ranks_ ? exited.ranks & *ranks_ : exited.ranks;
    if (ranks.empty() || record.kind() != exits::Record::Kind::ended) return;
    if (limit_.first_only && std::exchange(one_has_ended_, true)) return;
    if (!counts(record)) return;
    failed_ = failed_ | ranks;
    if (failed_.size() < limit_.tasks) return;
    auto end = [this, rank = *ranks.first(), record] { reached(rank, record, failed_, ""); };
    // The task's shell ends the job, unless it is lost meanwhile.
    if (!is_at_once())
      end();
    else if (!settle_timer_)
      settle(kOfOthers, end);
  }

  [[nodiscard]] bool concerns(Rank rank) const { return !ranks_ || ranks_->contains(rank); }

  // A task that a signal to all tasks has ended (Ctrl-C) has not failed by itself.
  [[nodiscard]] bool counts(const exits::Record& record) const {
    if (!host_.exit_policy().is_failure(record)) return false;
    if (host_.sent_to_tasks(record.status()->ending_signal())) return false;
    return codes_.empty() || codes_.contains(static_cast<Rank>(record.code()));
  }

  void reached(Rank rank, const exits::Record& record, const value::Idset& failed, const std::string& doubt) {
    if (std::exchange(is_reached_, true) || host_.ending()) return;
    std::string what = message(rank, record, failed) + doubt;
    exits::TaskEnd end{rank, record};
    std::string prefix = limit_.tasks == 1 ? "" : name() + ": ";
    if (notes_) return host_.raise({"exec", kNote, fmt::format("{}{}; the job goes on", prefix, what), {}, end});
    plugin::RaisedException exception{"exec", 0, prefix + what, record.status(), end};
    if (grace_.seconds() <= 0) return host_.raise(exception);
    auto timer = event::Timer::create(host_.loop(), [this, exception] { host_.raise(exception); });
    if (!timer) return host_.raise(exception);
    timer_ = *std::move(timer);
    timer_->start_grace(event::Seconds(grace_.seconds()));
    log(host_, *this, Level::warn, "{}; the job ends in {}", what, grace_.str());
  }

  [[nodiscard]] std::string message(Rank rank, const exits::Record& record, const value::Idset& failed) const {
    const job::Job& job = host_.job();
    auto node = job.taskmap.node_of(rank);
    std::string on = node && *node < job.shells() ? job.resources.nodes[*node].on() : "";
    std::string last = fmt::format("task {}{} {}", rank, on, record.status()->str());
    if (limit_.tasks == 1) return last;
    return fmt::format("{} of {} tasks have failed ({}): {}", failed.size(), job.tasks(), failed.str(), last);
  }

  static constexpr event::Seconds kSettle{0.15};   // how long to wait for a failure that this one follows from
  static constexpr event::Seconds kOfOthers{0.5};  // how long to wait until another shell has judged
  static constexpr int kNote = 2;                  // severity of an exception that does not end the job

  plugin::Host& host_;
  job::FailureLimit limit_;
  std::optional<value::Idset> ranks_;  // whose failures count; none: all
  value::Idset codes_;                 // the codes that count; none: all
  value::Duration grace_ = value::Duration::of_seconds(0);
  bool notes_ = false;          // instead of ending the job
  bool one_has_ended_ = false;  // a task of `ranks` has
  bool is_reached_ = false;
  value::Idset failed_;                    // on all nodes, without failures that do not count
  std::vector<exits::FailureFacts> here_;  // failures of this shell that count
  std::optional<event::Timer> timer_, settle_timer_;
};

}  // namespace

PluginPtr make_exit_on_error(plugin::Host& host) { return std::make_unique<ExitOnError>(host); }

}  // namespace nacre::plugins
