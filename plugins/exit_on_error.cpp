// SPDX-License-Identifier: Apache-2.0
//
// exit-on-error: tasks that fail end the job. How many: the option's value, or its member `when` (FailureLimit). `ranks` and
// `codes` select the failures that count, `grace` is how much later the job ends, `then` whether it does.
//
// Shell 0 judges by the ends of all tasks. Where the first failure ends the job at once each shell judges its own tasks, too, before
// the others have heard of them.
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "job/option_types.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr double kAll = 100;  // percent
constexpr const char* kValues =
    "true or false, a number of tasks, a share of the job's such as \"25%\", or \"first\"";

// How many failures are too many.
struct FailureLimit {
  std::uint64_t tasks = 0;  // 0: nothing is
  bool first_only = false;  // the first task to end decides: if it has succeeded, later failures are not looked at

  static Result<FailureLimit> read(const JsonAt& option, std::uint64_t job_tasks);
};

// "25%" of them, rounded up, at least one.
std::optional<std::uint64_t> share_of(const std::string& text, std::uint64_t job_tasks) {
  double percent = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || std::string_view(end) != "%" || !(percent > 0 && percent <= kAll)) return {};
  // 7% of 100 is 7, though 7.0 / 100 * 100 is a little more.
  double tasks = std::ceil(percent * static_cast<double>(job_tasks) / kAll - 1e-9);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(tasks));
}

Result<FailureLimit> FailureLimit::read(const JsonAt& option, std::uint64_t job_tasks) {
  if (option.json() == "first") return FailureLimit{1, true};
  std::string text = option.json().is_string() ? option.json().get<std::string>() : dump_json(option.json());
  if (auto number = parse_u64(text)) return FailureLimit{*number, false};
  if (option.json().is_string()) {
    if (auto share = share_of(text, job_tasks)) return FailureLimit{*share, false};
  }
  bool is_switch = option.json().is_boolean() || text == "on" || text == "off" || text == "true" || text == "false";
  if (!is_switch) return option.expected(kValues);
  bool is_on = TRY(job::switch_of(option));
  return FailureLimit{is_on ? 1U : 0U, false};
}

class ExitOnError final : public plugin::Plugin {
 public:
  explicit ExitOnError(plugin::Host& host) : Plugin("exit-on-error"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("task.exit", [this](plugin::Call&) { return task_exited(*host_.current_task()); });
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
    on("shell.tasks-complete", [this](plugin::Call&) {
      timer_.reset();
      return Result<void>();
    });
  }

 private:
  using Rank = value::Idset::Id;

  Result<void> read() {
    auto option = host_.options().at(name());
    if (!option) return {};
    if (option->json().is_object()) CHECK_OK(read_members(*option));
    auto when = host_.options().value_at(name());
    limit_ = when ? TRY(FailureLimit::read(*when, host_.job().tasks())) : FailureLimit{1, false};
    return {};
  }

  Result<void> read_members(const JsonAt& option) {
    CHECK_OK(option.only_keys({"when", "ranks", "codes", "grace", "then"}));
    if (auto ranks = TRY(option.find("ranks"))) ranks_ = TRY(job::ranks_option(*ranks));
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

  // A failure of this shell's that ends the job at once.
  Result<void> task_exited(const task::Task& task) {
    bool at_once = limit_.tasks == 1 && !limit_.first_only && !notes_ && grace_.seconds() <= 0;
    exits::Record record = exits::Record::of(task.status());
    auto rank = static_cast<Rank>(task.rank());
    if (at_once && counts(record) && concerns(rank)) reached(rank, record, value::Idset::range(rank, rank));
    return {};
  }

  // Shell 0's. Lost tasks are those of `tolerate-loss`, and one that could not be started has its own message.
  Result<void> tasks_exited(const plugin::Call& call) {
    if (limit_.tasks == 0) return {};
    JsonAt in = JsonAt::root(call.in);
    auto record = TRY(exits::Record::parse(TRY(TRY(in.at("record")).string())));
    auto ranks = TRY(value::Idset::parse(TRY(TRY(in.at("ranks")).string())));
    if (ranks_) ranks = ranks & *ranks_;
    if (ranks.empty() || record.kind() != exits::Record::Kind::ended) return {};
    if (limit_.first_only && std::exchange(one_has_ended_, true)) return {};
    if (!counts(record)) return {};
    failed_ = failed_ | ranks;
    if (failed_.size() >= limit_.tasks) reached(*ranks.first(), record, failed_);
    return {};
  }

  [[nodiscard]] bool concerns(Rank rank) const { return !ranks_ || ranks_->contains(rank); }

  // A task that a signal to all tasks has ended (Ctrl-C) has not failed by itself.
  [[nodiscard]] bool counts(const exits::Record& record) const {
    if (!host_.exit_policy().is_failure(record)) return false;
    const value::WaitStatus& status = *record.status();
    if (status.is_signal() && host_.sent_to_tasks(status.signal())) return false;
    return codes_.empty() || codes_.contains(static_cast<Rank>(record.code()));
  }

  void reached(Rank rank, const exits::Record& record, const value::Idset& failed) {
    if (std::exchange(is_reached_, true) || host_.ending()) return;
    std::string what = message(rank, record, failed);
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

  static constexpr int kNote = 2;  // severity of an exception that does not end the job

  plugin::Host& host_;
  FailureLimit limit_;
  std::optional<value::Idset> ranks_;  // whose failures count; none: all
  value::Idset codes_;                 // that count; none: all
  value::Duration grace_ = value::Duration::of_seconds(0);
  bool notes_ = false;          // instead of ending the job
  bool one_has_ended_ = false;  // of `ranks`
  bool is_reached_ = false;
  value::Idset failed_;  // of all nodes, as far as they count
  std::optional<event::Timer> timer_;
};

}  // namespace

PluginPtr make_exit_on_error(plugin::Host& host) { return std::make_unique<ExitOnError>(host); }

}  // namespace nacre::plugins
