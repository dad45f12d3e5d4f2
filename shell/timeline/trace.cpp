// SPDX-License-Identifier: Apache-2.0
#include "timeline/trace.hpp"

#include "value/wait_status.hpp"

namespace nacre::timeline {

// ---- trace event ------------------------------------------------------------------------
//
// One event of a trace and its text, which is made without a document of JSON: a job has several for each task.

// Text as a string of JSON, with its quotes.
std::string json_string(std::string_view text) {
  auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (!std::all_of(text.begin(), text.end(), is_plain)) return dump_json(text);
  std::string out;
  out.reserve(text.size() + 2);
  return out.append(1, '"').append(text).append(1, '"');
}

struct TraceEvent {
  char phase = 'X';
  std::string name;
  std::uint64_t pid = 0, tid = 0;
  const char* category = nullptr;
  std::optional<double> ts, dur;  // microseconds
  std::string id;                 // JSON; "": it has none
  std::string args;               // likewise, an object
  bool is_of_thread = false;      // an instant
  bool binds_to_slice = false;    // the end of an arrow: to the slice that it is in

  // A JSON object.
  // The keys ascend, as in all JSON that nacre writes.
  [[nodiscard]] std::string text() const {
    std::string out = "{";
    auto put = std::back_inserter(out);
    if (!args.empty()) fmt::format_to(put, R"("args":{},)", args);
    if (binds_to_slice) out += R"("bp":"e",)";
    if (category != nullptr) fmt::format_to(put, R"("cat":"{}",)", category);
    if (dur) fmt::format_to(put, R"("dur":{},)", *dur);
    if (!id.empty()) fmt::format_to(put, R"("id":{},)", id);
    fmt::format_to(put, R"("name":{},"ph":"{}","pid":{},)", json_string(name), phase, pid);
    if (is_of_thread) out += R"("s":"t",)";
    fmt::format_to(put, R"("tid":{})", tid);
    if (ts) fmt::format_to(put, R"(,"ts":{})", *ts);
    out += '}';
    return out;
  }
};

// ---- trace ------------------------------------------------------------------------------

namespace {

constexpr double kMicrosecond = 1e3;  // nanoseconds
constexpr Time kGrain = 125;          // nanoseconds: all times and durations of the trace are multiples of this
constexpr std::size_t kOfRank = 7;    // events at most, without its marks
constexpr std::size_t kOfShell = 6;   // names, and the shell's start
constexpr const char* kUnfinished = R"({"unfinished":true})";

double microseconds(Time time) { return static_cast<double>(time) / kMicrosecond; }

class Writer {
 public:
  Writer(const JobTimeline& job, const Facts& facts, std::size_t most) : job_(job), facts_(facts), most_(most) {}

  [[nodiscard]] Trace write() {
    choose();
    for (std::uint32_t i = 0; i < facts_.shells.size(); ++i) {
      if (shows_shell_[i]) shell(i);
      for (const auto& [rank, facts] : facts_.shells[i].ranks) {
        if (shown_ranks_[shown_at_++]) this->rank(i, rank, facts);
      }
    }
    for (const char* name : {kInitBarrier, kReadyBarrier, kStartBarrier, kExitBarrier}) arrows(name);
    sort();
    about();
    return std::move(out_);
  }

 private:
  // ---- what is shown -----------------------------------------------------------------

  // Half of the room is for shells, with their arrows and counters; ranks get the rest, and what shells leave.
  void choose() {
    std::vector<Sampled> shells, ranks;
    for (const ShellFacts& each : facts_.shells) {
      std::size_t events = kOfShell + each.phases.size() + 3 * each.barriers.size() + 2 * each.agents.size() +
                           2 * each.holds.size() + each.marks.size() + each.memory.size() + each.cpu.size();
      When came = each.barrier(kStartBarrier).in;
      shells.push_back({came.value_or(facts_.until) - facts_.begin, events});
      for (const auto& [rank, facts] : each.ranks)
        ranks.push_back({facts.start_time(), kOfRank + facts.marks.size()});
    }
    std::size_t of_ranks = events_of(ranks, std::vector<bool>(ranks.size(), true));
    shows_shell_ = sample_of(shells, std::max(most_ / 2, most_ - std::min(most_, of_ranks)));
    std::size_t used = events_of(shells, shows_shell_);
    shown_ranks_ = sample_of(ranks, most_ - std::min(most_, used));
  }

  static std::size_t events_of(const std::vector<Sampled>& all, const std::vector<bool>& shown) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < all.size(); ++i) out += shown[i] ? all[i].events : 0;
    return out;
  }

  // ---- events ------------------------------------------------------------------------

  // In eighths of a microsecond, which double has exactly: viewers add a duration to its beginning, and if the sum
  // is too large by a rounding the slice overlaps with the next one, which some viewers then do not show.
  [[nodiscard]] double ts(Time time) const {
    return microseconds(std::max<Time>(0, time - facts_.begin) / kGrain * kGrain);
  }

  [[nodiscard]] static std::uint64_t pid(std::uint32_t shell) { return std::uint64_t{shell} + 1; }
  [[nodiscard]] static std::uint64_t tid_of_rank(std::uint32_t rank) { return std::uint64_t{rank} + 1; }
  // No two threads of the job have the same number.
  [[nodiscard]] std::uint64_t tid_of_shell(std::uint32_t shell) const { return job_.tasks + 1 + shell; }

  // Names come first; of events that begin at the same time the longest comes first, as the others are within it.
  void sort() {
    auto order = [](const TraceEvent& each) {
      return std::tuple(each.phase != 'M', each.ts.value_or(0), -each.dur.value_or(0));
    };
    std::stable_sort(events_.begin(), events_.end(), [&order](const TraceEvent& one, const TraceEvent& other) {
      return order(one) < order(other);
    });
    out_.events.reserve(events_.size());
    for (const TraceEvent& each : events_) out_.events.push_back(each.text());
  }

  struct Track {
    std::uint64_t pid = 0, tid = 0;
  };

  TraceEvent& add(char phase, std::string name, const Track& track) {
    TraceEvent& out = events_.emplace_back();
    out.phase = phase;
    out.name = std::move(name);
    out.pid = track.pid;
    out.tid = track.tid;
    return out;
  }

  void named(const char* what, const Track& track, const char* key, std::string_view value) {
    add('M', what, track).args = fmt::format(R"({{"{}":{}}})", key, json_string(value));
  }
  void sorted(const char* what, const Track& track, std::int64_t index) {
    add('M', what, track).args = fmt::format(R"({{"sort_index":{}}})", index);
  }

  // A slice that has not ended goes on until the end of the trace, and is marked.
  TraceEvent& slice(std::string name, const char* category, const Track& track, Time begin, When end) {
    Time last = std::max(begin, end.value_or(facts_.until));
    TraceEvent& out = add('X', std::move(name), track);
    out.category = category;
    out.ts = ts(begin);
    out.dur = ts(last) - ts(begin);
    if (!end) out.args = kUnfinished;
    return out;
  }

  void instant(const std::string& name, const char* category, const Track& track, Time time) {
    TraceEvent& out = add('i', name, track);
    out.category = category;
    out.ts = ts(time);
    out.is_of_thread = true;
  }

  // For intervals that may overlap with others of their kind.
  void span(const std::string& name, const char* category, const Track& track, const std::string& id, Time begin,
            When end) {
    Time last = std::max(begin, end.value_or(facts_.until));
    for (auto [phase, time] : {std::pair{'b', begin}, std::pair{'e', last}}) {
      TraceEvent& out = add(phase, name, track);
      out.category = category;
      out.id = json_string(id);
      out.ts = ts(time);
      if (!end) out.args = kUnfinished;
    }
  }

  // ---- a shell -------------------------------------------------------------------------

  void shell(std::uint32_t index) {
    const ShellTimeline& shell = job_.shells[index];
    const ShellFacts& facts = facts_.shells[index];
    Track track{pid(index), tid_of_shell(index)};
    named("process_name", track, "name",
          shell.host.empty() ? shell.place() : fmt::format("{} (shell {})", shell.host, index));
    sorted("process_sort_index", track, index);
    if (std::string label = label_of(shell); !label.empty()) named("process_labels", track, "labels", label);
    named("thread_name", track, "name", "shell");
    sorted("thread_sort_index", track, -1);
    if (facts.booted && facts.joining) slice("boot", "shell", track, *facts.booted, facts.joining);
    if (facts.joining) slice("join", "shell", track, *facts.joining, facts.joined);
    for (const Interval& each : facts.phases) slice(each.name, "shell", track, each.begin, each.end);
    for (const auto& [name, passage] : facts.barriers) {
      if (!passage.in) continue;
      slice(fmt::format("{} barrier", name), "barrier", track, *passage.in, release(name, passage));
    }
    for (std::size_t i = 0; i < facts.holds.size(); ++i) {
      const Interval& each = facts.holds[i];
      span(hold_name(each.name, false), "hold", track, fmt::format("hold-{}-{}", index, i), each.begin, each.end);
    }
    for (const AgentFacts& each : facts.agents) {
      const std::string place = each.shell < job_.shells.size() ? job_.shells[each.shell].place() : "?";
      span(fmt::format("{} {}", each.program, place), "start", track, fmt::format("agent-{}", each.shell),
           each.begin, each.joined);
    }
    for (const auto& each : facts.marks) instant(each.name, "mark", track, each.time);
    counters(facts, track);
  }

  // The leader has passed the exit barrier once all have entered it; it gets no more from the shells then.
  [[nodiscard]] When release(const std::string& barrier, const Passage& passage) const {
    if (passage.out || barrier != kExitBarrier) return passage.out;
    When leaders = facts_.shells[job_.leader].barrier(barrier).out;
    return leaders ? When(std::max(*leaders, *passage.in)) : When();
  }

  [[nodiscard]] std::string label_of(const ShellTimeline& shell) const {
    std::string missing = shell.presence == Presence::lost   ? "lost: its events are missing"
                          : shell.presence == Presence::late ? "has not answered: events are missing"
                                                             : "";
    if (shell.shell == job_.leader || shell.clock.is_same() || shell.events.empty()) return missing;
    Time error = shell.clock.uncertainty(shell.events.back().time);
    std::string clock =
        error == Clock::kUnknown ? "clock not known" : fmt::format("clock ±{:.0f} µs", microseconds(error));
    return missing.empty() ? clock : fmt::format("{}; {}", clock, missing);
  }

  void counters(const ShellFacts& facts, const Track& track) {
    for (const auto& each : facts.memory) {
      TraceEvent& out = add('C', "memory", track);
      out.ts = ts(each.time);
      out.args = fmt::format(R"({{"bytes":{}}})", each.value);
    }
    for (std::size_t i = 1; i < facts.cpu.size(); ++i) {
      const auto& [before, used_before] = facts.cpu[i - 1];
      const auto& [time, used] = facts.cpu[i];
      if (time <= before) continue;
      TraceEvent& out = add('C', "cpu", track);
      out.ts = ts(before);
      out.args =
          fmt::format(R"({{"cores":{}}})", static_cast<double>(std::max<std::int64_t>(0, used - used_before)) /
                                               microseconds(time - before));
    }
  }

  // ---- a rank ----------------------------------------------------------------------------

  void rank(std::uint32_t shell, std::uint32_t rank, const RankFacts& facts) {
    Track track{pid(shell), tid_of_rank(rank)};
    named("thread_name", track, "name", fmt::format("rank {}", rank));
    sorted("thread_sort_index", track, rank);
    if (facts.spawn) slice("spawn", "task", track, *facts.spawn, facts.exec ? facts.exec : facts.not_started);
    if (facts.not_started) instant("not started", "task", track, *facts.not_started);
    if (facts.exec) {
      TraceEvent& run = slice("run", "task", track, *facts.exec, facts.exit);
      if (facts.exit)
        run.args = fmt::format(R"({{"end":{}}})", json_string(value::WaitStatus::of_raw(facts.status).str()));
    }
    if (facts.pmi_init && facts.exec) {
      // Stays within the slice above it, even if its end came together with the task's.
      Time last = facts.exit.value_or(facts_.until);
      Time begin = std::clamp(*facts.pmi_init, *facts.exec, std::max(*facts.exec, last));
      When end = facts.pmi_finalize ? facts.pmi_finalize : facts.exit;
      if (end) end = std::min(*end, last);
      slice("PMI", "task", track, begin, end);
    }
    if (facts.first_output) instant("first output", "task", track, *facts.first_output);
    for (const auto& each : facts.marks) instant(each.name, "mark", track, each.time);
  }

  // ---- arrows ------------------------------------------------------------------------------

  // Arrows go from the shell that came last at a barrier to each other shell's release. An arrow that would go back
  // in time, as the clocks are not exact enough, is left out and counted.
  void arrows(const char* name) {
    std::uint32_t last = 0;
    When came;
    for (std::uint32_t i = 0; i < facts_.shells.size(); ++i) {
      When in = facts_.shells[i].barrier(name).in;
      if (in && (!came || *in > *came)) std::tie(last, came) = std::pair{i, in};
    }
    if (!came || !shows_shell_[last] || facts_.shells.size() < 2) return;
    for (std::uint32_t i = 0; i < facts_.shells.size(); ++i) {
      Passage passage = facts_.shells[i].barrier(name);
      if (i == last || !shows_shell_[i] || !passage.in) continue;
      When out = release(name, passage);
      if (!out) continue;
      // just before its end, where the slice still is
      Time end = std::max(*passage.in, *out - kGrain);
      if (end < *came) {
        ++backwards_;
        continue;
      }
      arrow(name, Track{pid(last), tid_of_shell(last)}, *came, Track{pid(i), tid_of_shell(i)}, end);
    }
  }

  void arrow(const char* name, const Track& from, Time begin, const Track& to, Time end) {
    ++arrows_;
    for (auto [phase, track, time] : {std::tuple{'s', from, begin}, std::tuple{'f', to, end}}) {
      TraceEvent& out = add(phase, fmt::format("{} barrier", name), track);
      out.category = "barrier";
      out.id = fmt::format("{}", arrows_);
      out.ts = ts(time);
      out.binds_to_slice = phase == 'f';
    }
  }

  // ---- about the trace -----------------------------------------------------------------------

  void about() {
    Json& about = out_.about;
    about = {{"job", job_.job},
             {"version", "nacre " + job_.version},
             {"shells", job_.shells.size()},
             {"tasks", job_.tasks},
             {"start", job_.wall + microseconds(facts_.begin - job_.anchor) / 1e6},
             {"over", job_.is_over}};
    Json clocks = Json::array(), lost = Json::array(), late = Json::array(), dropped = Json::array();
    for (const ShellTimeline& each : job_.shells) {
      if (each.shell != 0 && !each.events.empty()) clocks.push_back(clock_of(each));
      if (each.presence == Presence::lost) lost.push_back(place_of(each));
      if (each.presence == Presence::late) late.push_back(place_of(each));
      if (each.missing_events() == 0) continue;
      dropped.push_back(place_of(each));
      dropped.back()["events"] = each.missing_events();
    }
    about["clocks"] = std::move(clocks);
    if (!lost.empty()) about["lost"] = std::move(lost);
    if (!late.empty()) about["late"] = std::move(late);
    if (!dropped.empty()) about["dropped"] = {{"shells", std::move(dropped)}, {"which", "the newest"}};
    if (backwards_ > 0) about["arrows_left_out"] = backwards_;
    auto sampled = [&](const char* what, const std::vector<bool>& shown) {
      auto count = std::count(shown.begin(), shown.end(), true);
      if (static_cast<std::size_t>(count) == shown.size()) return;
      about["sampled"][what] = {{"shown", count}, {"of", shown.size()}, {"which", "the slowest 1 % and a sample"}};
    };
    sampled("ranks", shown_ranks_);
    sampled("shells", shows_shell_);
  }

  static Json place_of(const ShellTimeline& shell) { return {{"shell", shell.shell}, {"host", shell.host}}; }

  [[nodiscard]] static Json clock_of(const ShellTimeline& shell) {
    Json out = place_of(shell);
    Time first = shell.events.front().time, last = shell.events.back().time;
    auto put = [&](const char* name, Time value) {
      out[name] = value == Clock::kUnknown ? Json() : Json(microseconds(value));
    };
    out["same"] = shell.clock.is_same();
    put("uncertainty_us", std::max(shell.clock.uncertainty(first), shell.clock.uncertainty(last)));
    Clock::Offset measured = shell.clock.measured(first);
    put("measured_offset_us", measured.value);
    put("measured_uncertainty_us", measured.uncertainty);
    return out;
  }

  const JobTimeline& job_;
  const Facts& facts_;
  std::size_t most_;
  std::vector<TraceEvent> events_;
  Trace out_;
  std::vector<bool> shows_shell_;
  std::vector<bool> shown_ranks_;  // of all shells one after the other
  std::size_t shown_at_ = 0;
  std::uint64_t arrows_ = 0, backwards_ = 0;
};

}  // namespace

Trace trace_of(const JobTimeline& job, const Facts& facts, std::size_t most) {
  return Writer(job, facts, most).write();
}

std::string trace_head() { return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"; }

std::string trace_tail(const Json& about) { return "\n],\"otherData\":" + dump_json(about) + "}\n"; }

std::string Trace::text() const {
  std::string out = trace_head();
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i > 0) out += ",\n";
    out += events[i];
  }
  return out + trace_tail(about);
}

// ---- sample -----------------------------------------------------------------------------

std::vector<bool> sample_of(const std::vector<Sampled>& all, std::size_t budget) {
  constexpr std::size_t kOneOf = 100;
  std::size_t sum = 0;
  for (const Sampled& each : all) sum += each.events;
  if (sum <= budget) return std::vector<bool>(all.size(), true);
  std::vector<bool> out(all.size(), false);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t slowest = std::max<std::size_t>(1, all.size() / kOneOf);
  auto end = order.begin() + static_cast<std::ptrdiff_t>(slowest);
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t one, std::size_t other) {
    return all[one].time != all[other].time ? all[one].time > all[other].time : one < other;
  });
  std::size_t used = 0;
  for (auto each = order.begin(); each != end; ++each) {
    if (each != order.begin() && used + all[*each].events > budget) break;
    out[*each] = true;
    used += all[*each].events;
  }
  // One of the others is taken whenever the events so far reach the next multiple of their share.
  std::size_t room = budget > used ? budget - used : 0;
  std::size_t left = sum - used;
  std::size_t passed = 0, taken = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (out[i]) continue;
    passed += all[i].events;
    bool is_due = static_cast<double>(taken + all[i].events) <=
                  static_cast<double>(passed) * static_cast<double>(room) / static_cast<double>(left);
    if (!is_due) continue;
    out[i] = true;
    taken += all[i].events;
  }
  return out;
}

}  // namespace nacre::timeline
