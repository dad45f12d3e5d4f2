// SPDX-License-Identifier: Apache-2.0
//
// timeline: what has happened when, in all shells: a summary of the launch on the leader's standard error when the
// job has ended (timeline=on), or Chrome trace events in a file (timeline=FILE). Others ask for it while the job
// runs (`nacre timeline`, by the plugin control). Without the option nothing is kept.
//
// The leader asks for the clocks of the others once all tasks have started, and then more and more rarely. Where
// all have its own clock, as on one host, one question shows that.
#include <algorithm>

#include <fmt/format.h>

#include "base/print.hpp"
#include "event/clock.hpp"
#include "job/options.hpp"
#include "plugins/builtins.hpp"
#include "plugins/exit_report/report_file.hpp"
#include "plugins/timeline/counters.hpp"
#include "plugins/timeline/gatherer.hpp"
#include "plugins/timeline/source.hpp"
#include "timeline/summary.hpp"
#include "timeline/trace.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kPrefix = "nacre: ";
constexpr int kClockRounds = 5;           // questions about clocks of other hosts, one after the other
constexpr event::Seconds kFirstPause{1};  // between two such looks at the clocks; each pause is twice the last
constexpr event::Seconds kMostPause{60};
constexpr event::Seconds kMostHold{1};  // for the first questions, and for room, before a shell leaves

class TimelinePlugin final : public plugin::Plugin, public TimelineSource {
 public:
  explicit TimelinePlugin(plugin::Host& host) : Plugin("timeline"), host_(host), gatherer_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
  }
  ~TimelinePlugin() override { host_.timeline().when_closing(nullptr); }

  [[nodiscard]] bool is_on() const override { return is_on_; }

  Result<void> collect(std::function<void(const timeline::JobTimeline&)> done) override {
    return gatherer_.ask(
        TimelineGatherer::Wanted::events,
        [this, done = std::move(done)](const value::Idset& late) { done(gatherer_.timelines(has_ended_, late)); });
  }

  [[nodiscard]] Json kept() const override { return kept_; }

 private:
  [[nodiscard]] bool is_leader() const { return host_.job().shell_rank == 0; }

  Result<void> read() {
    auto option = host_.options().at(name());
    bool has_file = option && !ReportFile::is_switch(option->json());
    is_on_ = option && (has_file || TRY(job::switch_of(*option)));
    if (!is_on_) {
      host_.timeline().turn_off();
      return {};
    }
    host_.timeline().turn_on();
    if (has_file && is_leader()) file_ = TRY(ReportFile::at(host_, *option, {name(), name(), "the timeline"}));
    prints_ = !has_file;
    return serve();
  }

  // Whether what tasks use is measured, too.
  [[nodiscard]] bool has_usage() const {
    auto is_wanted = [this](const char* name) {
      auto option = host_.options().at(name);
      return option && (!ReportFile::is_switch(option->json()) || job::switch_of(*option).value_or(false));
    };
    return is_wanted("usage") || is_wanted("joblog");
  }

  Result<void> serve() {
    gatherer_.serve();
    started_ = host_.events().follow([this](const Json& event) {
      if (member_of(event, "name") == "shell.start") started();
    });
    if (has_usage()) counters_.emplace(host_);
    on("timeline.mark", [this](plugin::Call& call) { return mark(call.in); });
    on("shell.finish", [this](plugin::Call&) {
      if (counters_) counters_->stop();
      if (!is_leader()) gatherer_.send_rest(false);
      if (gatherer_.has_unsent()) hold();
      return Result<void>();
    });
    if (is_leader()) {
      for (const char* topic : {"shell.lost", "shell.left"}) {
        on(topic, [this](plugin::Call& call) {
          gatherer_.gone(call.in.value("shell_rank", std::uint32_t{0}), call.topic == "shell.left");
          return Result<void>();
        });
      }
      on("shell.joined", [this](plugin::Call&) {
        gatherer_.note_shells();
        return Result<void>();
      });
      ended_ = host_.on_ended([this](const Json&) { job_ended(); });
      return {};
    }
    gatherer_.when_answered([this] { look_at_hold(); });
    gatherer_.when_sent([this] { look_at_hold(); });
    host_.timeline().when_closing([this] { gatherer_.send_rest(true); });
    return {};
  }

  Result<void> mark(const Json& in) {
    JsonAt at = JsonAt::root(in);
    std::string what = TRY(TRY(at.at("name")).string());
    auto rank = TRY(at.find("rank"));
    std::uint32_t subject = timeline::kNoRank;
    if (rank) subject = static_cast<std::uint32_t>(TRY(rank->integer(0, UINT32_MAX - 1)));
    auto tasks = host_.tasks();
    bool is_here =
        !rank || std::any_of(tasks.begin(), tasks.end(), [&](const auto& each) { return each->rank() == subject; });
    if (!is_here) return rank->error("no task of this shell");
    // What the shell notes of PMI itself, a plugin that serves it may note as well.
    if (rank && what == "pmi.init")
      host_.timeline().add(timeline::Kind::pmi_init, subject);
    else if (rank && what == "pmi.finalize")
      host_.timeline().add(timeline::Kind::pmi_finalize, subject);
    else
      host_.timeline().add(timeline::Kind::mark, what, subject);
    return {};
  }

  // ---- a shell that is not the leader ----------------------------------------------

  // It does not leave before the leader knows its clock, unless that takes long.
  void started() {
    if (counters_) static_cast<void>(counters_->start());
    if (host_.bulk() == nullptr) return;
    if (is_leader()) return look_at_clocks();
    hold();
    look_at_hold();  // the leader may have started, and asked, before
  }

  void hold() {
    if (holds_ || !make_timer([this] { let_go(); })) return;
    holds_ = true;
    timer_->start_grace(kMostHold);
    host_.hold(name());
  }

  // Made once: it may be what calls.
  bool make_timer(std::function<void()> act) {
    if (timer_) return true;
    auto timer = event::Timer::create(host_.loop(), std::move(act));
    if (timer) timer_ = *std::move(timer);
    return timer_.has_value();
  }

  void look_at_hold() {
    std::uint64_t least = gatherer_.has_leaders_clock() ? 1 : kClockRounds;
    if (gatherer_.answers() >= least && !gatherer_.has_unsent()) let_go();
  }

  void let_go() {
    if (!std::exchange(holds_, false)) return;
    timer_->stop();
    static_cast<void>(host_.release(name()));
  }

  // ---- the leader ----------------------------------------------------------------------

  void look_at_clocks() {
    rounds_ = kClockRounds;
    ask_again();
  }

  void ask_again() {
    if (rounds_-- > 0 && !has_ended_ &&
        gatherer_.ask(TimelineGatherer::Wanted::clocks,
                      [this](const auto& /*late*/) { gatherer_.is_one_clock() ? pause() : ask_again(); }))
      return;
    pause();
  }

  void pause() {
    if (has_ended_ || !make_timer([this] { look_at_clocks(); })) return;
    timer_->unref();
    timer_->start(pause_);
    pause_ = std::min(2 * pause_, kMostPause);
  }

  void job_ended() {
    has_ended_ = true;
    timer_.reset();
    timeline::JobTimeline job = gatherer_.timelines(true, {});
    timeline::Facts facts = timeline::facts_of(job);
    timeline::Summary summary = timeline::summary_of(job, facts);
    kept_ = summary.json();
    if (file_ && file_->write_text(timeline::trace_of(job, facts).text()) && !file_->file().empty())
      kept_["file"] = file_->file();
    if (!prints_) return;
    plugin::TaskOutput* output = host_.task_output();
    if (output != nullptr && output->takes_events()) return output->put_event("timeline", kept_);
    print_err(timeline::text_of(summary, kPrefix));
  }

  plugin::Host& host_;
  TimelineGatherer gatherer_;
  bool is_on_ = false, prints_ = false, has_ended_ = false;
  std::unique_ptr<ReportFile> file_;  // the leader's
  std::optional<TimelineCounters> counters_;
  // The leader's: until the next look at the clocks; of another shell: until it leaves at the latest.
  std::optional<event::Timer> timer_;
  bool holds_ = false;
  int rounds_ = 0;
  event::Seconds pause_ = kFirstPause;
  Json kept_;
  std::unique_ptr<plugin::EventRecord::Follower> started_;
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_timeline(plugin::Host& host) { return std::make_unique<TimelinePlugin>(host); }

TimelineSource* timeline_of(plugin::Host& host) {
  for (const auto& each : host.stack().plugins()) {
    if (each->name() == "timeline") return dynamic_cast<TimelineSource*>(each.get());
  }
  return nullptr;
}

}  // namespace nacre::plugins
