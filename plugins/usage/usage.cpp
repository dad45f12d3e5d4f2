// SPDX-License-Identifier: Apache-2.0
//
// usage: what each task has used, and each node: a summary on the leader's standard error when the job has ended
// (usage=on), or lines of JSON in a file (usage=FILE). joblog=FILE: a line for each task, as GNU parallel writes
// it. usage-plot=FILE: a picture. cgroup=task: exact values, by a cgroup for each task. usage-gpu: also GPUs.
// Without these options nothing is measured. The other shells send their rows to the leader as tasks end.

#include "plugins/usage/usage.hpp"

#include <unistd.h>

#include "base/print.hpp"
#include "base/program.hpp"
#include "bulk/options.hpp"
#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugins/exit_report/report_file.hpp"
#include "plugins/usage/meter.hpp"
#include "usage/measure.hpp"

namespace nacre::plugins {
namespace {

constexpr event::Seconds kForOtherShells{3};  // once all tasks have ended
constexpr std::uint64_t kRowsAtOnce = 1024;   // of an answer
constexpr const char* kUsagePrefix = "nacre: ";

class UsagePlugin final : public plugin::Plugin {
 public:
  UsagePlugin(plugin::Host& host, std::uint64_t most_tasks)
      : Plugin("usage"), host_(host), most_tasks_(most_tasks) {
    on("shell.init", [this] { return read(); });
  }

 private:
  // ---- the options -----------------------------------------------------------------

  Result<void> read() {
    auto usage = host_.options().at("usage");
    auto joblog = host_.options().at("joblog");
    auto plot = host_.options().at("usage-plot");
    const bool has_file = usage && !ReportFile::is_switch(usage->json());
    bool is_on = usage && (has_file || TRY(job::switch_of(*usage)));
    bool logs = joblog && (!ReportFile::is_switch(joblog->json()) || TRY(job::switch_of(*joblog)));
    bool plots = plot && (!ReportFile::is_switch(plot->json()) || TRY(job::switch_of(*plot)));
    if (is_leader()) CHECK_OK(open_files());
    bool has_cgroups = TRY(read_cgroup());
    bool has_gpus = TRY(host_.options().flag("usage-gpu"));
    if (!is_on && !logs && !plots && !has_cgroups && !has_gpus) return {};
    bool has_rows = host_.job().tasks() <= most_tasks_;
    if (logs && !has_rows)
      return joblog->error(
          fmt::format("a log has a line for each task, of at most {} tasks; the job has {}: leave "
                      "it out, or take usage, whose summary has no limit",
                      most_tasks_, host_.job().tasks()));
    prints_ = is_on;
    has_rows_ = has_rows;
    serve(logs);
    if (has_cgroups) use_cgroups();
    if (has_gpus) measure_gpus();
    return {};
  }

  Result<void> open_files() {
    rows_file_ = TRY(ReportFile::of_option(host_, {name(), "usage", "the usage of tasks"}));
    joblog_file_ = TRY(ReportFile::of_option(host_, {name(), "joblog", "the log of tasks"}));
    plot_file_ = TRY(ReportFile::of_option(host_, {name(), "usage-plot", "the picture of what tasks use"}));
    return {};
  }

  Result<bool> read_cgroup() {
    auto option = host_.options().at("cgroup");
    if (!option || option->json() == "off" || option->json() == false) return false;
    if (option->json() == "task") return true;
    return option->expected("task or off");
  }

  // Called once all plugins have looked where the shell's cgroup is, as it may be moved.
  void use_cgroups() {
    host_.start_after_all();
    on("shell.post-init", [this]() -> Result<void> {
      std::string name = fmt::format("{}-{}", host_.job().id.f58_plain(), host_.job().shell_rank);
      cgroups_ = TRY(TaskCgroups::make(::getpid(), name));
      if (!cgroups_->without().empty())
        log(host_, *this, Level::notice, "cgroup=task: without the memory of tasks: {}", cgroups_->without());
      meter_->read_cgroups(*cgroups_);
      return {};
    });
    on("task.exec", [this] {
      const task::Task& task = *host_.current_task();
      return cgroups_->enter(task.rank(), task.attempt());
    });
  }

  void measure_gpus() {
    auto complain = [this](const std::string& why) { log(host_, *this, Level::warn, "usage-gpu: {}", why); };
    gpus_.emplace(host_, complain);
    on("usage.gpus", [this](plugin::Call& call) { call.out = gpus_->now(); });
  }

  [[nodiscard]] usage::TaskRow row_of(const task::Task& task) {
    usage::TaskRow out = meter_->exited(task);
    if (gpus_) out.gpu = gpus_->exited(task);
    return out;
  }

  [[nodiscard]] bool is_leader() const { return host_.job().leads(); }

  void serve(bool has_joblog) {
    meter_.emplace(host_, has_joblog);
    std::function<void(const usage::UsageBatch&)> own;
    if (is_leader()) own = [this](const usage::UsageBatch& batch) { take(batch); };
    // The next leader finds the head there, and writes behind what it finds.
    if (joblog_file_) on("shell.start", [this] { add_to_joblog({}); });
    const bool hands_over = job::OnLeaderLost::read(host_.options()).value_or(job::OnLeaderLost()).takes_over;
    uplink_.emplace(host_, std::move(own), !has_rows_, hands_over);
    on("task.init", [this] { host_.current_task()->command().setup.opens_io = true; });
    on("task.fork", [this] {
      meter_->started(*host_.current_task());
      return gpus_ ? gpus_->started(*host_.current_task()) : Result<void>();
    });
    on("task.exit", [this] {
      const task::Task& task = *host_.current_task();
      usage::TaskRow row = row_of(task);
      before_restart_.erase(task.rank());
      if (task.starts_again()) {
        before_restart_.emplace(task.rank(), std::move(row));
        return Result<void>();
      }
      measured_.insert(task.rank());
      uplink_->add(std::move(row));
      return Result<void>();
    });
    // Tasks that have other ranks from now on do not replace these rows.
    on("shell.restart", [this](plugin::Call& call) {
      if (call.in.value("all", false) && !host_.job().resizes.empty()) before_restart_.clear();
    });
    // A shell that ends before its tasks start has no shell.finish.
    for (const char* topic : {"shell.finish", "shell.exit"}) {
      on(topic, [this] { finish(); });
    }
    uplink_->serve([this](bulk::Id shell, std::string_view bytes) { take(shell, bytes); });
    auto gone = [this](const plugin::ShellChange& change) {
      gone_.insert(change.shell);
      this->gone(change.shell);
    };
    on<plugin::ShellLost>(gone);
    on<plugin::ShellLeft>(gone);
    on("job.leader", [this] { return follow(); });
    if (is_leader()) serve_as_leader();
  }

  // Another shell leads, which lacks all earlier rows. It only adds rows to the joblog that no leader has taken
  // yet: the others are in it.
  Result<void> follow() {
    uplink_->send_again();
    if (!is_leader()) return {};
    has_head_ = true;
    serve_as_leader();
    return open_files();
  }

  void serve_as_leader() {
    if (host_.bulk() != nullptr) {
      value::Idset others = host_.job().shells_that_came() - gone_;
      others.remove(host_.job().shell_rank);
      for (std::uint32_t shell : others.ids()) waits_for_.insert(shell);
    }
    on("shell.tasks-complete", [this] { return wait(); });
    on<plugin::ShellJoined>([this](const plugin::ShellJoined& joined) { waits_for_.insert(joined.shell); });
    on("job.usage", [this](plugin::Call& call) {
      call.out = call.in.contains("from") ? rows_from(call.in.value("from", std::uint64_t{0}))
                                          : summary(call.in.value("cells", usage::kFewCells));
    });
    ended_ = host_.on_ended([this](const Json&) { job_ended(); });
  }

  // ---- each shell --------------------------------------------------------------------

  // Adds rows for tasks without task.exit: those that could not be started, which ends the job.
  void finish() {
    if (std::exchange(finished_, true)) return;
    for (auto& [rank, row] : before_restart_) {
      if (measured_.insert(rank).second) uplink_->add(std::move(row));
    }
    for (const auto& task : host_.tasks()) {
      if (task->state() != task::State::exited || measured_.contains(task->rank())) continue;
      uplink_->add(row_of(*task));
    }
    usage::NodeRow node = meter_->node();
    if (gpus_) {
      node.gpus = gpus_->devices();
      gpus_->stop();
    }
    uplink_->finish(node);
    if (meter_->closed() > 0)
      log(host_, *this, Level::notice,
          "what {} of the tasks have read and written only root may know: their programs are set-user-ID",
          meter_->closed());
    if (uplink_->dropped() > 0)
      log(host_, *this, Level::warn, "the usage of {} tasks was left out: the leader took none for long",
          uplink_->dropped());
  }

  // ---- the leader --------------------------------------------------------------------

  void take(std::uint32_t shell, std::string_view bytes) {
    if (bytes.empty()) return gone(shell);
    auto batch = usage::UsageBatch::parse(bytes);
    if (batch) leave_out_moved(shell, *batch);
    if (!batch || !is_of(shell, *batch))
      return log(host_, *this, Level::warn, "shell {}: {}: a part of its tasks' usage is left out", shell,
                 batch ? "it has sent what is not of its tasks" : batch.error().message);
    take(*batch);
    if (batch->node) gone(shell);
  }

  void take(const usage::UsageBatch& batch) {
    table_.add(batch);
    if (joblog_file_ && !batch.rows.empty() && !batch.is_again) add_to_joblog(batch.rows);
  }

  [[nodiscard]] bool is_of(std::uint32_t shell, const usage::UsageBatch& batch) const {
    if (batch.node && batch.node->shell != shell) return false;
    return std::all_of(batch.rows.begin(), batch.rows.end(),
                       [&](const usage::TaskRow& row) { return host_.job().taskmap.node_of(row.rank) == shell; });
  }

  // A task that was started elsewhere since gets its row from there.
  void leave_out_moved(std::uint32_t shell, usage::UsageBatch& batch) const {
    const job::Job& job = host_.job();
    std::erase_if(batch.rows, [&](const usage::TaskRow& row) {
      return job.has_had(shell, row.rank) && job.taskmap.node_of(row.rank) != shell;
    });
  }

  // Nothing more comes from this shell.
  void gone(std::uint32_t shell) {
    waits_for_.erase(shell);
    if (waits_for_.empty()) let_go();
  }

  Result<void> wait() {
    if (waits_for_.empty()) return {};
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { let_go(); }));
    timer_->start_grace(kForOtherShells);
    holds_ = true;
    host_.hold(name());
    return {};
  }

  void let_go() {
    if (!std::exchange(holds_, false)) return;
    timer_->stop();
    static_cast<void>(host_.release(name()));
  }

  [[nodiscard]] usage::Hosts hosts() const {
    auto of_shell = [this](std::uint32_t shell) { return host_.job().hostname_of(shell); };
    auto of_task = [this, of_shell](std::uint32_t rank) {
      auto shell = host_.job().taskmap.node_of(rank);
      return shell ? of_shell(*shell) : std::string();
    };
    return {of_task, of_shell};
  }

  // While tasks run it is not known which rows are missing.
  [[nodiscard]] Json summary(std::size_t cells = usage::kFewCells) const {
    value::Idset missing;
    for (std::uint32_t shell = 0; has_ended_ && shell < host_.job().shells(); ++shell) {
      if (has_rows_ || !table_.nodes().contains(shell)) missing = missing | host_.job().taskmap.ranks_on(shell);
    }
    return table_.summary(host_.job().tasks(), missing - table_.ranks(), hosts(), cells);
  }

  // {"rows": [...], "next": the first rank of the next rows}
  [[nodiscard]] Json rows_from(std::uint64_t rank) const {
    Json out{{"rows", Json::array()}};
    auto names = hosts();
    for (auto row =
             table_.rows().lower_bound(static_cast<std::uint32_t>(std::min<std::uint64_t>(rank, UINT32_MAX)));
         row != table_.rows().end(); ++row) {
      if (out["rows"].size() == kRowsAtOnce) {
        out["next"] = row->first;
        break;
      }
      out["rows"].push_back(row->second.json(names.of_task(row->first)));
    }
    return out;
  }

  void job_ended() {
    has_ended_ = true;
    Json all = summary();
    if (rows_file_) rows_file_->write_text(lines(all));
    if (joblog_file_) {
      add_to_joblog({});
      joblog_file_->end();
    }
    if (plot_file_) plot_file_->write_text(usage::svg_of(summary(usage::kMostCells), title()));
    if (!prints_ || rows_file_) return;
    plugin::TaskOutput* output = host_.task_output();
    if (output != nullptr && output->takes_events()) return output->put_event("usage", all);
    print_report(host_, usage::summary_text(all, kUsagePrefix, is_utf8_terminal(STDERR_FILENO)));
  }

  [[nodiscard]] std::string title() const {
    return fmt::format("job {}: {}", host_.job().id.f58_plain(),
                       usage::command_line(host_.job().spec.command).substr(0, usage::kMostTitle));
  }

  [[nodiscard]] std::string lines(const Json& summary) const {
    std::string out;
    auto add = [&](Json line, const char* type) {
      line["type"] = type;
      out += dump_json(line) + '\n';
    };
    auto names = hosts();
    for (const auto& [rank, row] : table_.rows()) add(row.json(names.of_task(rank)), "task");
    for (const auto& [shell, node] : table_.nodes()) add(node.json(names.of_shell(shell)), "node");
    add(summary, "summary");
    return out;
  }

  // Adds rows as they come. With `ended-before` the file already has the head, and lines of an earlier job.
  void add_to_joblog(std::span<const usage::TaskRow> rows) {
    const bool keeps = host_.options().find("ended-before") != nullptr || host_.job().has_next_leader();
    std::string out = std::exchange(has_head_, true) || keeps ? "" : usage::joblog_head();
    if (usual_.empty()) usual_ = usage::command_line(host_.job().spec.command);
    auto names = hosts();
    for (const usage::TaskRow& row : rows)
      out += usage::joblog_line(row, names.of_task(row.rank), row.command.empty() ? usual_ : row.command);
    joblog_file_->add(out, keeps);
  }

  plugin::Host& host_;
  std::uint64_t most_tasks_;
  std::unique_ptr<ReportFile> rows_file_, joblog_file_, plot_file_;
  bool prints_ = false;
  bool has_rows_ = false;  // a row for each task, not only totals
  std::unique_ptr<TaskCgroups> cgroups_;
  std::optional<TaskMeter> meter_;
  std::optional<GpuMeter> gpus_;
  std::optional<UsageUplink> uplink_;
  std::set<std::uint32_t> measured_;                        // tasks of this shell
  std::map<std::uint32_t, usage::TaskRow> before_restart_;  // by rank: of tasks that were to start again
  bool finished_ = false;
  // On the leader.
  usage::UsageTable table_;
  std::set<std::uint32_t> waits_for_;  // shells
  value::Idset gone_;                  // shells as well, also from before this one led
  std::optional<event::Timer> timer_;
  bool holds_ = false, has_ended_ = false, has_head_ = false;
  std::string usual_;  // the job's command, for the joblog
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_usage(plugin::Host& host) { return make_usage_of(host, usage::kMostTasks); }

PluginPtr make_usage_of(plugin::Host& host, std::uint64_t most_tasks) {
  return std::make_unique<UsagePlugin>(host, most_tasks);
}

// ---- uplink -----------------------------------------------------------------------------

void UsageUplink::serve(std::function<void(bulk::Id shell, std::string_view bytes)> take) {
  if (bulk::Port* port = host_.bulk()) records_.serve(*port, std::move(take));
}

void UsageUplink::add(usage::TaskRow row) {
  if (only_totals_) {
    if (!next_.totals) next_.totals.emplace();
    return next_.totals->add(row);
  }
  next_.rows.push_back(std::move(row));
  if (own_ || next_.rows.size() >= usage::UsageBatch::kMostRows) return flush();
  if (next_.rows.size() > 1) return;
  if (!timer_) {
    auto timer = event::Timer::create(host_.loop(), [this] { flush(); });
    if (!timer) return flush();
    timer_ = *std::move(timer);
    timer_->unref();
  }
  timer_->start(kMostDelay);
}

void UsageUplink::flush() {
  if (timer_) timer_->stop();
  usage::UsageBatch batch = std::exchange(next_, {});
  if (own_) return own_(batch);
  if (keeps_) kept_.push_back(batch);
  if (records_.waiting() >= kMostUnsent && !batch.node) {
    dropped_ += batch.rows.size();
    return;
  }
  put(std::move(batch));
}

void UsageUplink::send_again() {
  for (usage::UsageBatch each : kept_) {
    each.is_again = true;
    put(std::move(each));
  }
}

// Commands may be long: a batch that is too large for a record is sent as two.
void UsageUplink::put(usage::UsageBatch batch) {
  std::string text = batch.text();
  if (text.size() <= bulk::kMaxRecord || batch.rows.size() < 2) return records_.put(std::move(text));
  usage::UsageBatch first;
  first.is_again = batch.is_again;
  auto half = batch.rows.begin() + static_cast<std::ptrdiff_t>(batch.rows.size() / 2);
  first.rows.assign(std::make_move_iterator(batch.rows.begin()), std::make_move_iterator(half));
  batch.rows.erase(batch.rows.begin(), half);
  put(std::move(first));
  put(std::move(batch));
}

void UsageUplink::finish(const usage::NodeRow& node) {
  next_.node = node;
  flush();
}

}  // namespace nacre::plugins
