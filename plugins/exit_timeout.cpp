// SPDX-License-Identifier: Apache-2.0
//
// exit-timeout=T: once one task of the job has ended, the others have T (30 s by default; `none`: for ever) before
// the job is ended. With exit-timeout.after=failure the time begins when a task fails. A task that has ended well
// also begins it, but then the job is ended only if some running tasks are connected to PMI, that is, have called
// init and not finalize: they may wait for it. With the option `fault-tolerance` it is `none` by default.
//
// With the option at-most tasks do not depend on each other, and an end says nothing about the others: there is no
// such time.
//
// Only when that time is over does shell 0 ask for the connected tasks: each shell gathers what its plugins answer
// to the topic `pmi.connected`.

#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugin/questions.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr double kDefaultTimeout = 30;                            // seconds
constexpr std::string_view kQuestion = "exit-timeout.connected";  // an announcement of shell 0; and a collective

class ExitTimeout final : public plugin::Plugin {
 public:
  explicit ExitTimeout(plugin::Host& host) : Plugin("exit-timeout"), host_(host) {
    on("shell.init", [this] { return read(); });
    on<plugin::TasksExited>([this](const plugin::TasksExited& exited) { return tasks_exited(exited); });
    on("shell.tasks-complete", [this] {
      timer_.reset();
      failure_timer_.reset();
    });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    if (option && option->json().is_object()) {
      CHECK_OK(option->only_keys({"timeout", "after"}));
      if (auto after = TRY(option->find("after"))) {
        if (after->json() != "exit" && after->json() != "failure") return after->expected("exit or failure");
        only_failures_ = after->json() == "failure";
      }
    }
    if (auto timeout = host_.options().value_at(name())) {
      timeout_ = timeout->json() == "none" ? value::Duration::infinite() : TRY(job::seconds_option(*timeout));
    } else if (TRY(job::is_fault_tolerant(host_.options()))) {
      timeout_ = value::Duration::infinite();  // the other tasks go on for as long as they like
    }
    if (TRY(job::AtMost::read(host_.options())).is_on()) timeout_ = value::Duration::infinite();
    if (host_.bulk() != nullptr) {
      announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view) {
        if (topic == kQuestion) answer();
      });
    }
    return {};
  }

  Result<void> tasks_exited(const plugin::TasksExited& exited) {
    const value::Idset& ranks = exited.ranks;
    // Tasks of a lost shell have not ended by themselves; `tolerate-loss` decides what becomes of the job.
    if (exited.record.kind() == exits::Record::Kind::lost) return {};
    if (ranks.empty() || timeout_.is_infinite() || host_.job().tasks() == 1) return {};
    bool failed = host_.exit_policy().is_failure(exited.record);
    auto& timer = only_failures_ && failed ? failure_timer_ : timer_;
    if (timer) return {};
    timer =
        TRY(event::Timer::create(host_.loop(), [this, first = *ranks.first(), failed] { expired(first, failed); }));
    timer->start_grace(event::Seconds(timeout_.seconds()));
    return {};
  }

  void expired(std::uint64_t first, bool failed) {
    if (host_.ending()) return;
    if (!only_failures_) return end(first, "ended", running(), "still run");
    if (failed) return end(first, "failed", running(), "still run");
    first_ = first;
    if (host_.bulk() == nullptr) return answer();
    if (Result<void> asked = host_.announce(kQuestion, ""); !asked)
      log(host_, *this, Level::warn, "which tasks are connected to PMI is not known: {}", asked.error().message);
  }

  void end(std::uint64_t first, std::string_view how, const value::Idset& left, std::string_view what) {
    if (left.empty()) return;
    host_.raise({"exec", 0,
                 fmt::format("exit-timeout: task {} {} {} ago, and these {}: {}", first, how, timeout_.str(), what,
                             left.short_str()),
                 std::nullopt});
  }

  [[nodiscard]] value::Idset running() const {
    auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
    return value::Idset::range(0, last) - host_.outcomes().ranks();
  }

  // ---- who is connected to PMI -----------------------------------------------

  // Called once on each shell.
  void answer() {
    const std::uint32_t last = host_.last_with_tasks();
    if (host_.job().shell_rank > last) return;
    answer_ = host_.gather_up_to(last, kQuestion, plugin::pmi_connected(host_, name()).str(),
                                 [this](Result<plugin::Gathered> all) {
                                   if (!all) return log(host_, *this, Level::debug, "{}", all.error().message);
                                   if (host_.job().leads()) answered(*all);
                                 });
  }

  void answered(const plugin::Gathered& all) {
    value::Idset connected;
    for (const auto& [ranks, shells] : all) {
      if (auto some = value::Idset::parse(ranks)) connected = connected | *some;
    }
    value::Idset left = connected & running();
    if (left.empty()) {
      log(host_, *this, Level::debug, "task {} ended well {} ago; no task that runs is connected to PMI", first_,
          timeout_.str());
    }
    end(first_, "ended", left, "are still connected to PMI");
  }

  plugin::Host& host_;
  value::Duration timeout_ = value::Duration::of_seconds(kDefaultTimeout);
  bool only_failures_ = false;
  std::uint64_t first_ = 0;                    // the rank of the task that ended first
  std::optional<event::Timer> timer_;          // from the first end; with only_failures_, of a task that succeeded
  std::optional<event::Timer> failure_timer_;  // with only_failures_: from the first failure
  plugin::Registration announcements_;
  plugin::Registration answer_;
};

}  // namespace

PluginPtr make_exit_timeout(plugin::Host& host) { return std::make_unique<ExitTimeout>(host); }

}  // namespace nacre::plugins
