// SPDX-License-Identifier: Apache-2.0
//
// timeline: what has happened when, in all shells: a summary of the launch on the leader's standard error when the
// job has ended (timeline=on), or Chrome trace events in a file (timeline=FILE). `nacre timeline` asks for it while
// the job runs, by the plugin control. Without the option nothing is kept.
//
// The leader asks the other shells for their clocks once all tasks have started, and then less and less often. If
// all have the leader's clock, as on one host, one question shows that.

#include "plugins/timeline/timeline.hpp"

#include <unistd.h>

#include "base/print.hpp"
#include "bulk/port.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "event/loop.hpp"
#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugin/host.hpp"
#include "plugin/questions.hpp"
#include "plugins/builtins.hpp"
#include "plugins/exit_report/report_file.hpp"
#include "plugins/sysmon/sysmon.hpp"
#include "timeline/facts.hpp"
#include "timeline/summary.hpp"
#include "timeline/trace.hpp"
#include "version.hpp"

namespace nacre::plugins {

// ---- counters ---------------------------------------------------------------------------
//
// Notes in the timeline, now and then, how much memory and processor time the job's processes of this node use.

class TimelineCounters {
 public:
  static constexpr event::Seconds kPeriod{0.5};
  static constexpr int kMostInPeriod = 256;  // after so many looks the period is doubled

  // To be made before a task is started.
  explicit TimelineCounters(plugin::Host& host) : host_(host), usage_(JobUsage::of_shell(::getpid())) {}

  Result<void> start() {
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
    timer_->unref();
    timer_->start(period_, period_);
    look();
    return {};
  }

  void stop() { timer_.reset(); }

 private:
  void look() {
    constexpr double kMicroseconds = 1e6;
    auto processes = usage_.needs_processes() ? event::Children::descendants() : std::vector<pid_t>();
    if (auto sample = usage_.sample(processes)) {
      host_.timeline().add(timeline::Kind::memory, 0U, static_cast<std::int64_t>(sample->memory));
      host_.timeline().add(timeline::Kind::cpu, 0U, std::llround(sample->cpu * kMicroseconds));
    }
    if (++looks_ % kMostInPeriod != 0) return;
    period_ *= 2;
    timer_->start(period_, period_);
  }

  plugin::Host& host_;
  JobUsage usage_;
  std::optional<event::Timer> timer_;
  event::Seconds period_ = kPeriod;
  int looks_ = 0;
};

// ---- gatherer ---------------------------------------------------------------------------
//
// How the leader gets the events that all shells have kept. It asks them by an announcement, for the events since
// their last answer or only for their clocks: the delay of each answer bounds the difference between the two
// clocks. At its end a shell sends the rest unasked.

namespace {

constexpr std::size_t kMostUnsentEvents = 256;  // records

}  // namespace

class TimelineGatherer {
 public:
  static constexpr std::size_t kMostOpen = 4;                      // questions
  static constexpr event::Seconds kMostAnswerTime{1};              // until a shell is late
  static constexpr std::size_t kMostInAll = std::size_t{8} << 20;  // events of all shells that the leader keeps

  enum class Content { clocks, events };

  explicit TimelineGatherer(plugin::Host& host) : host_(host) {}

  // On every shell, in shell.init.
  void serve() {
    clock_ = event::clock_of_host();
    if (host_.job().leads()) note_shells();
    asked_ = plugin::serve_questions(
        host_, records_, kTopic, [this](bulk::Id origin, std::string_view bytes) { take(origin, bytes); },
        [this](std::string_view question) { asked(question); });
  }

  // ---- a shell that is not the leader
  // Sends the events that it has kept and not sent. `is_all`: nothing more comes.
  void send_rest(bool is_all) { send(0, timeline::now(), true, is_all); }

  // A new leader has nothing yet.
  void send_again() {
    sent_ = 0;
    answers_ = 0;
    has_leaders_clock_ = false;
  }

  [[nodiscard]] bool has_unsent() const { return records_.waiting() > 0; }
  // `act` is called when all records that had to wait are sent.
  void when_sent(std::function<void()> act) { records_.when_empty(std::move(act)); }
  [[nodiscard]] std::uint64_t answers() const { return answers_; }  // so far
  // Whether it has the leader's clock, by the leader's last question.
  [[nodiscard]] bool has_leaders_clock() const { return has_leaders_clock_; }
  void when_answered(std::function<void()> act) { on_answered_ = std::move(act); }

  // ---- the leader
  // `done` is called once, when all shells have answered, or are lost or late.
  Result<void> ask(Content content, std::function<void(const value::Idset& late)> done) {
    auto text = [this, content](std::uint64_t number) {
      return dump_json({{"number", number}, {"events", content == Content::events}, {"clock", clock_}});
    };
    auto finish = [done = std::move(done)](const plugin::OpenQuestions<timeline::Time>::Answered& all) {
      done(all.late);
    };
    CHECK_OK(open_.ask({open_.others() - over_, kMostAnswerTime, timeline::now(), text, std::move(finish)}));
    return {};
  }

  // All present shells have this one's clock, as far as is known.
  [[nodiscard]] bool is_one_clock() const {
    return std::all_of(shells_.begin(), shells_.end(), [this](const timeline::ShellTimeline& each) {
      return each.shell == host_.job().shell_rank || each.clock.is_same() || over_.contains(each.shell) ||
             open_.gone().contains(each.shell);
    });
  }

  // Also called later, when shells have joined the job.
  void note_shells() {
    const auto& nodes = host_.job().resources.nodes;
    std::size_t known = host_.bulk() == nullptr ? 1 : nodes.size();
    for (std::size_t shell = shells_.size(); shell < known; ++shell) {
      timeline::ShellTimeline& out = shells_.emplace_back();
      out.shell = static_cast<std::uint32_t>(shell);
      out.host = nodes[shell].hostname;
      if (!host_.job().has_come(out.shell)) over_.insert(out.shell);
    }
    std::map<std::string, int> shells_on;
    for (const timeline::ShellTimeline& each : shells_) ++shells_on[each.host];
    for (timeline::ShellTimeline& each : shells_) each.shares_host = shells_on[each.host] > 1;
  }

  // The shell is lost, or has left: nothing more comes from it.
  void gone(std::uint32_t shell, bool as_planned) {
    if (over_.contains(shell)) return;
    if (as_planned) over(shell);
    open_.gone(shell);
  }

  // All that is here now. `late`: shells that have not answered the last question for events.
  [[nodiscard]] timeline::JobTimeline timelines(bool is_over, const value::Idset& late) const {
    timeline::JobTimeline out;
    out.job = host_.job().id.f58_plain();
    out.version = kVersion;
    out.tasks = host_.job().tasks();
    out.shells = shells_;
    if (out.shells.empty()) out.shells.emplace_back();
    const timeline::Recorder& own = host_.timeline();
    out.leader = out.shells.size() == 1 ? 0 : host_.job().shell_rank;
    timeline::ShellTimeline& leader = out.shells[out.leader];
    leader.events = own.events();
    leader.names = own.names();
    leader.dropped = own.dropped();
    leader.clock.set_same();
    for (timeline::ShellTimeline& each : out.shells) {
      bool is_late = is_over ? each.shell != out.leader && host_.bulk() != nullptr && !over_.contains(each.shell)
                             : late.contains(each.shell);
      if (open_.gone().contains(each.shell) && !over_.contains(each.shell))
        each.presence = timeline::Presence::lost;
      else if (is_late)
        each.presence = timeline::Presence::late;
    }
    out.anchor = timeline::now();
    out.wall = event::wall_clock();
    out.until = out.anchor;
    out.is_over = is_over;
    timeline::add_barriers_to_clocks(out);
    return out;
  }

 private:
  static constexpr const char* kTopic = "timeline.ask";  // announcement: {"number", "events", "clock"}

  // ---- in each shell -------------------------------------------------------------------

  void asked(std::string_view bytes) {
    timeline::Time received = timeline::now();
    auto json = parse_json(bytes);
    if (!json || !member_of(*json, "number").is_number_unsigned()) return;
    if (records_.waiting() > kMostUnsentEvents) return;  // the leader takes none: it counts this shell as late
    send(json->at("number").get<std::uint64_t>(), received, json->value("events", Json()) == true, true);
    ++answers_;
    has_leaders_clock_ = !clock_.empty() && json->value("clock", Json()) == clock_;
    if (on_answered_) on_answered_();
  }

  void send(std::uint64_t number, timeline::Time received, bool has_events, bool is_last) {
    const timeline::Recorder& recorder = host_.timeline();
    const auto& events = recorder.events();
    for (bool is_end = false; !is_end;) {
      timeline::TimelineBatch batch;
      batch.number = number;
      batch.received = received;
      batch.clock = clock_;
      if (has_events) {
        batch.first = sent_;
        std::size_t count = std::min(timeline::TimelineBatch::kMostEvents, events.size() - sent_);
        auto begin = events.begin() + static_cast<std::ptrdiff_t>(sent_);
        batch.events.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
        sent_ += count;
        batch.dropped = recorder.dropped();
        batch.names = recorder.names();
      }
      is_end = !has_events || sent_ == events.size();
      batch.is_last = is_end && is_last;
      batch.sent = timeline::now();
      records_.put(batch.text());
    }
  }

  // ---- the leader ----------------------------------------------------------------------

  [[nodiscard]] bool is_of(std::uint32_t shell, const timeline::TimelineBatch& batch) const {
    return std::all_of(batch.events.begin(), batch.events.end(), [&](const timeline::TimelineEvent& each) {
      if (!timeline::is_of_rank(each.kind)) return true;
      bool is_of_shell = each.kind == timeline::Kind::mark && each.subject == timeline::kNoRank;
      return is_of_shell || host_.job().has_had(shell, each.subject);
    });
  }

  void take(std::uint32_t shell, std::string_view bytes) {
    timeline::Time now = timeline::now();
    if (bytes.empty() || shell == host_.job().shell_rank || shell >= shells_.size()) return;
    auto batch = timeline::TimelineBatch::parse(bytes);
    if (!batch || !is_of(shell, *batch))
      return host_.log().log(Level::warn, "timeline", "shell {}: {}: a part of its timeline is left out", shell,
                             batch ? "it has sent what is not of its tasks" : batch.error().message);
    timeline::ShellTimeline& mine = shells_[shell];
    std::size_t before = mine.events.size();
    mine.take(*batch, kMostInAll - std::min(kMostInAll, kept_));
    kept_ += mine.events.size() - before;
    if (!batch->clock.empty() && batch->clock == clock_) mine.clock.set_same();
    if (batch->number == 0) {
      if (batch->is_last) over(shell);
      return;
    }
    timeline::Time* sent = open_.find(batch->number, shell);
    if (sent == nullptr) return;  // the answer came too late
    mine.clock.add_exchange(*sent, batch->received, batch->sent, now);
    if (batch->is_last) open_.complete(batch->number, shell);
  }

  void over(std::uint32_t shell) {
    if (!open_.gone().contains(shell)) over_.insert(shell);
  }

  plugin::Host& host_;
  plugin::Registration asked_;
  bulk::RecordQueue records_{bulk::up::kTimeline};
  std::size_t sent_ = 0;  // events
  std::uint64_t answers_ = 0;
  bool has_leaders_clock_ = false;
  std::function<void()> on_answered_;
  std::string clock_;  // of this host

  plugin::OpenQuestions<timeline::Time> open_{host_, kTopic, kMostOpen};  // kept with each question: when it was
                                                                          // asked
  std::vector<timeline::ShellTimeline> shells_;  // of all shells, by rank; this shell's is empty
  value::Idset over_;                            // shells that send nothing more, as planned
  std::size_t kept_ = 0;                         // events of all other shells
};

// ---- timeline ---------------------------------------------------------------------------

namespace {

constexpr const char* kPrefix = "nacre: ";
constexpr int kClockRounds = 5;           // questions about clocks of other hosts, one after the other
constexpr event::Seconds kFirstPause{1};  // between two such looks at the clocks; each pause is twice the last
constexpr event::Seconds kMostPause{60};
constexpr event::Seconds kMostHold{1};  // how long a shell that leaves waits for the first questions, and for room

class TimelinePlugin final : public plugin::Plugin, public TimelineSource {
 public:
  explicit TimelinePlugin(plugin::Host& host) : Plugin("timeline"), host_(host), gatherer_(host) {
    on("shell.init", [this] { return read(); });
  }
  ~TimelinePlugin() override { host_.timeline().when_closing(nullptr); }

  [[nodiscard]] bool is_on() const override { return is_on_; }

  Result<void> collect(std::function<void(const timeline::JobTimeline&)> done) override {
    return gatherer_.ask(
        TimelineGatherer::Content::events,
        [this, done = std::move(done)](const value::Idset& late) { done(gatherer_.timelines(has_ended_, late)); });
  }

  [[nodiscard]] Json kept() const override { return kept_; }

 private:
  [[nodiscard]] bool is_leader() const { return host_.job().leads(); }

  Result<void> read() {
    auto option = host_.options().at(name());
    bool has_file = option && !ReportFile::is_switch(option->json());
    is_on_ = option && (has_file || TRY(job::switch_of(*option)));
    if (!is_on_) {
      host_.timeline().turn_off();
      return {};
    }
    host_.timeline().turn_on();
    if (is_leader()) CHECK_OK(open_file());
    return serve();
  }

  Result<void> open_file() {
    file_ = TRY(ReportFile::of_option(host_, {name(), name(), "the timeline"}));
    return {};
  }

  // Whether the tasks' usage is measured as well.
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
    on("shell.finish", [this] {
      if (counters_) counters_->stop();
      finishes_ = true;
      send_rest();
    });
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { gatherer_.gone(lost.shell, false); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) { gatherer_.gone(left.shell, true); });
    on("shell.joined", [this] {
      if (is_leader()) gatherer_.note_shells();
    });
    on("job.leader", [this] { return follow(); });
    if (is_leader()) {
      ended_ = host_.on_ended([this](const Json&) { job_ended(); });
      return {};
    }
    gatherer_.when_answered([this] { look_at_hold(); });
    gatherer_.when_sent([this] { look_at_hold(); });
    host_.timeline().when_closing([this] { gatherer_.send_rest(true); });
    return {};
  }

  void send_rest() {
    if (!is_leader()) gatherer_.send_rest(false);
    if (gatherer_.has_unsent()) hold();
  }

  // Another shell leads, and all shells send it what they have noted so far.
  Result<void> follow() {
    if (!is_leader()) {
      gatherer_.send_again();
      if (finishes_) send_rest();
      return {};
    }
    let_go();
    timer_.reset();  // its callback was for letting go
    gatherer_.when_answered(nullptr);
    gatherer_.when_sent(nullptr);
    host_.timeline().when_closing(nullptr);
    gatherer_.note_shells();
    ended_ = host_.on_ended([this](const Json&) { job_ended(); });
    if (has_started_) look_at_clocks();
    return open_file();
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
    // A plugin that serves PMI may note the same events that the shell itself notes of PMI.
    if (rank && what == "pmi.init")
      host_.timeline().add(timeline::Kind::pmi_init, subject);
    else if (rank && what == "pmi.finalize")
      host_.timeline().add(timeline::Kind::pmi_finalize, subject);
    else
      host_.timeline().add(timeline::Kind::mark, what, subject);
    return {};
  }

  // ---- a shell that is not the leader ----------------------------------------------

  // A shell does not leave before the leader knows its clock, unless that takes long.
  void started() {
    has_started_ = true;
    if (counters_) static_cast<void>(counters_->start());
    if (host_.bulk() == nullptr) return;
    if (is_leader()) return look_at_clocks();
    hold();
    look_at_hold();  // the leader may have started, and asked, earlier
  }

  void hold() {
    if (holds_ || !make_timer([this] { let_go(); })) return;
    holds_ = true;
    timer_->start_grace(kMostHold);
    host_.hold(name());
  }

  // The timer is made once, as it may be the caller.
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
        gatherer_.ask(TimelineGatherer::Content::clocks,
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
    if (file_) return;
    plugin::TaskOutput* output = host_.task_output();
    if (output != nullptr && output->takes_events()) return output->put_event("timeline", kept_);
    print_report(host_, timeline::text_of(summary, kPrefix));
  }

  plugin::Host& host_;
  TimelineGatherer gatherer_;
  bool is_on_ = false, has_started_ = false, finishes_ = false, has_ended_ = false;
  std::unique_ptr<ReportFile> file_;  // the leader's
  std::optional<TimelineCounters> counters_;
  // On the leader: until the next look at the clocks. On another shell: until it leaves at the latest.
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
