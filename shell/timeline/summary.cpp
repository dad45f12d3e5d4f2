// SPDX-License-Identifier: Apache-2.0
#include "timeline/summary.hpp"

#include "wire/json.hpp"

namespace nacre::timeline {
namespace {

constexpr Time kLeastReason = 200'000;  // nanoseconds: what took less explains nothing

constexpr const char* kJoin = "join";

std::string tasks_text(std::size_t count) {
  return fmt::format("spawn of {} task{}", count, count == 1 ? "" : "s");
}

// Finds the steps of one job.
class Finder {
 public:
  Finder(const JobTimeline& job, const Facts& facts) : job_(job), facts_(facts) {}

  [[nodiscard]] Summary find() {
    launch();
    run();
    end();
    clocks();
    for (const ShellTimeline& each : job_.shells) {
      if (each.presence == Presence::lost) out_.lost.add(each.place());
      if (each.presence == Presence::late) out_.late.add(each.place());
      out_.dropped += each.missing_events();
    }
    return std::move(out_);
  }

 private:
  using Moment = std::function<When(const ShellFacts&)>;

  // The shell that comes last at a moment that all shells have; none: there is only one shell, or none has it.
  struct Latest {
    std::uint32_t shell = 0;
    Time time = 0;
  };
  [[nodiscard]] std::optional<Latest> latest(const Moment& moment) const {
    std::optional<Latest> out;
    for (std::uint32_t i = 0; i < facts_.shells.size(); ++i) {
      When when = moment(facts_.shells[i]);
      if (when && (!out || *when > out->time)) out = Latest{i, *when};
    }
    return out;
  }

  [[nodiscard]] bool has_others() const { return job_.shells.size() > 1; }
  [[nodiscard]] Last last_of(std::uint32_t shell) const {
    Last out;
    out.shell = shell;
    out.place = job_.shells[shell].place();
    return out;
  }

  // ---- the launch --------------------------------------------------------------------

  void launch() {
    const ShellFacts& leader = facts_.shells[job_.leader];
    at_ = leader.booted.value_or(facts_.begin);
    start_of_shells();
    if (has_others() && leader.joined) step(out_.launch_steps, kJoin, *leader.joined, {});
    barrier_step(
        kInitBarrier, [](const ShellFacts& shell) { return shell.joined; }, leader);
    prologs();
    const Moment since_init = [](const ShellFacts& shell) { return shell.barrier(kInitBarrier).out; };
    barrier_step(kReadyBarrier, since_init, leader);
    if (auto spawned = latest([](const ShellFacts& shell) { return shell.spawned; }))
      step(out_.launch_steps, "spawn", spawned->time, {});
    auto since_ready = [&](const ShellFacts& shell) {
      When ready = shell.barrier(kReadyBarrier).out;
      return ready ? ready : since_init(shell);
    };
    barrier_step(kStartBarrier, since_ready, leader);
    for (const LaunchStep& each : out_.launch_steps) out_.launch += each.time;
    out_.has_launched = leader.barrier(kStartBarrier).out.has_value();
  }

  void step(std::vector<LaunchStep>& steps, std::string name, Time until, std::optional<Last> last) {
    Time end = std::max(at_, until);  // clocks are not exact
    steps.push_back({std::move(name), end - at_, std::move(last)});
    at_ = end;
  }

  // For all ways to start shells: the program that a shell has started for another one, or a manager.
  void start_of_shells() {
    if (!has_others()) {
      if (When joined = facts_.shells[job_.leader].joined) step(out_.launch_steps, "boot", *joined, {});
      return;
    }
    auto last_boot = latest([](const ShellFacts& shell) { return shell.booted; });
    if (!last_boot) return;
    std::string program = "boot";
    std::optional<Last> slowest;
    for (const ShellFacts& starter : facts_.shells) {
      for (const AgentFacts& agent : starter.agents) {
        program = agent.program == "nacre-shell" ? "start of shells" : agent.program;
        if (agent.shell >= facts_.shells.size()) continue;
        When booted = facts_.shells[agent.shell].booted;
        if (!booted || (slowest && *booted - agent.begin <= slowest->time)) continue;
        slowest = last_of(agent.shell);
        slowest->time = std::max<Time>(0, *booted - agent.begin);
        slowest->is_slowest = true;
      }
    }
    if (!slowest) slowest = last_of(last_boot->shell);
    step(out_.launch_steps, program, last_boot->time, std::move(slowest));
  }

  // Plugins that let the start wait, until the last shell comes to the ready barrier or, without that, spawns.
  void prologs() {
    bool any = std::any_of(facts_.shells.begin(), facts_.shells.end(),
                           [](const ShellFacts& shell) { return !shell.holds.empty(); });
    auto over = latest([](const ShellFacts& shell) {
      When ready = shell.barrier(kReadyBarrier).in;
      return ready ? ready : shell.spawning;
    });
    if (!any || !over) return;
    std::optional<Last> longest;
    std::string name;
    for (std::uint32_t i = 0; i < facts_.shells.size(); ++i) {
      for (const Interval& hold : facts_.shells[i].holds) {
        Time length = hold.length(facts_.until);
        if (longest && length <= longest->time) continue;
        longest = last_of(i);
        longest->time = length;
        longest->is_slowest = true;
        name = hold_name(hold.name, false);
      }
    }
    if (!has_others()) longest.reset();
    step(out_.launch_steps, name, over->time, std::move(longest));
  }

  // `since`: when the shells began to work towards the barrier.
  void barrier_step(const char* name, const Moment& since, const ShellFacts& leader) {
    When passed = leader.barrier(name).out;
    if (!passed) return;
    step(out_.launch_steps, fmt::format("{} barrier", name), *passed, last_at(name, since));
  }

  // Also for a barrier that nobody has passed so far.
  [[nodiscard]] std::optional<Last> last_at(const char* name, const Moment& since) const {
    if (!has_others()) return {};
    auto last = latest([name](const ShellFacts& shell) { return shell.barrier(name).in; });
    if (!last) return {};
    Last out = last_of(last->shell);
    explain(facts_.shells[last->shell], since, last->time, out);
    return out;
  }

  // What took longest of all that this shell did from then on, and before it came.
  void explain(const ShellFacts& shell, const Moment& since, Time until, Last& out) const {
    When from = since(shell);
    auto look = [&](const Interval& each, const std::string& name) {
      Time begin = std::max(each.begin, from.value_or(each.begin));
      Time end = std::min(each.end.value_or(until), until);
      if (end - begin < kLeastReason || end - begin <= out.time) return;
      out.time = end - begin;
      out.why = fmt::format("its {} took", name);
    };
    for (const Interval& each : shell.holds) look(each, hold_name(each.name, false));
    for (const Interval& each : shell.phases) {
      // the phase only waits for a hold
      look(each, each.name == kSpawnPhase ? tasks_text(shell.ranks.size()) : each.name);
    }
  }

  // ---- the tasks -----------------------------------------------------------------------

  struct OfRank {
    std::uint32_t rank = 0;
    std::uint32_t shell = 0;
    Time time = 0;
  };
  enum class Pick { first, last };
  [[nodiscard]] std::optional<OfRank> rank_at(Pick pick,
                                              const std::function<When(const RankFacts&)>& moment) const {
    std::optional<OfRank> out;
    for (std::uint32_t i = 0; i < facts_.shells.size(); ++i) {
      for (const auto& [rank, facts] : facts_.shells[i].ranks) {
        When when = moment(facts);
        bool counts = when && (!out || (pick == Pick::first ? *when < out->time : *when > out->time));
        if (counts) out = OfRank{rank, i, *when};
      }
    }
    return out;
  }

  [[nodiscard]] Last last_of(const OfRank& found) const {
    Last out = last_of(found.shell);
    out.rank = found.rank;
    if (const std::string& host = job_.shells[found.shell].host; !host.empty()) out.place = host;
    return out;
  }

  // Each step counts from the moment when all tasks had been started.
  void run() {
    auto add = [this](const char* name, Pick pick, const std::function<When(const RankFacts&)>& moment) {
      auto found = rank_at(pick, moment);
      if (!found) return;
      out_.run_steps.push_back({name, std::max<Time>(0, found->time - at_), last_of(*found)});
    };
    add("PMI init", Pick::last, [](const RankFacts& rank) { return rank.pmi_init; });
    add("first output", Pick::first, [](const RankFacts& rank) { return rank.first_output; });
    add("first end", Pick::first, [](const RankFacts& rank) { return rank.exit; });
    if (is_over()) add("last end", Pick::last, [](const RankFacts& rank) { return rank.exit; });
  }

  // Whether all tasks have ended.
  [[nodiscard]] bool is_over() const {
    std::uint64_t ended = 0;
    for (const ShellFacts& shell : facts_.shells) {
      for (const auto& [rank, facts] : shell.ranks) ended += facts.exit || facts.not_started ? 1 : 0;
    }
    return job_.is_over || ended == job_.tasks;
  }

  // ---- the end ---------------------------------------------------------------------------

  void end() {
    When passed = facts_.shells[job_.leader].barrier(kExitBarrier).out;
    auto over = rank_at(Pick::last, [](const RankFacts& rank) { return rank.exit; });
    if (!passed || !over || !has_others()) return;
    at_ = over->time;
    std::optional<Last> last = last_at(kExitBarrier, [&](const ShellFacts&) { return When(INT64_MAX); });
    if (last) explain_end(*last);
    step(out_.end_steps, "exit barrier", *passed, std::move(last));
    if (When end = facts_.shells[job_.leader].barrier(kEndBarrier).out)
      step(out_.end_steps, "end barrier", *end, {});
  }

  // Its last task, unless a plugin has made the end wait after that.
  void explain_end(Last& out) const {
    const ShellFacts& shell = facts_.shells[out.shell];
    const std::string& host = job_.shells[out.shell].host;
    When over;
    for (const auto& [rank, facts] : shell.ranks) {
      if (!facts.exit || (over && *facts.exit < *over)) continue;
      over = facts.exit;
      out.rank = rank;
    }
    const Interval* held = nullptr;
    for (const Interval& each : shell.end_holds) {
      if (each.end && (!over || *each.end > *over) && (held == nullptr || *each.end > *held->end)) held = &each;
    }
    Time waited = held == nullptr ? 0 : *held->end - std::max(held->begin, over.value_or(held->begin));
    if (waited < kLeastReason) {
      if (out.rank && !host.empty()) out.place = host;
      return;
    }
    out.why = fmt::format("its {} took", hold_name(held->name, true));
    out.time = waited;
    out.rank.reset();
  }

  // ---- the clocks ------------------------------------------------------------------------

  void clocks() {
    for (std::size_t i = 1; i < job_.shells.size(); ++i) {
      const ShellTimeline& shell = job_.shells[i];
      if (shell.events.empty()) continue;
      Time error = 0;
      for (const TimelineEvent& each : shell.events) {
        if (!is_of_rank(each.kind) && each.kind < Kind::end_hold_begins)
          error = std::max(error, shell.clock.uncertainty(each.time));
      }
      if (!out_.clocks.place.empty() && error <= out_.clocks.most) continue;
      out_.clocks = {error, shell.place()};
    }
  }

  const JobTimeline& job_;
  const Facts& facts_;
  Summary out_;
  Time at_ = 0;  // the end of the last step
};

}  // namespace

void Summary::Missing::add(std::string place) {
  if (places.size() < kMostPlaces)
    places.push_back(std::move(place));
  else
    ++others;
}

Summary summary_of(const JobTimeline& job, const Facts& facts) {
  if (facts.shells.empty()) return {};
  return Finder(job, facts).find();
}

// ---- summary text -----------------------------------------------------------------------

namespace {

constexpr double kSecond = 1e9;
constexpr std::size_t kMostPlaces = 8;
double seconds(Time time) { return static_cast<double>(time) / kSecond; }

struct InSeconds {
  Json write(Time time) const { return seconds(time); }
  Result<void> read(const JsonAt& at, Time& time) const {
    constexpr double kMost = 1e9;  // seconds
    double value = TRY(at.number());
    if (!(std::abs(value) < kMost)) return at.expected("a time in seconds");
    time = std::llround(value * kSecond);
    return {};
  }
};

// ---- text ------------------------------------------------------------------------------

// Milliseconds without a unit: "160", "8.7", "0.2"; longer times as "12.3 s".
std::string time_text(Time time) {
  constexpr double kMillisecond = 1e6;
  constexpr double kExact = 10, kMost = 10'000;
  double value = static_cast<double>(time) / kMillisecond;
  if (value >= kMost) return fmt::format("{:.1f} s", value / 1000);
  if (value >= kExact || value == 0) return fmt::format("{:.0f}", value);
  std::string out = fmt::format("{:.1f}", value);
  return out.ends_with(".0") ? out.substr(0, out.size() - 2) : out;
}

std::string with_unit(Time time) {
  std::string out = time_text(time);
  return out.ends_with('s') ? out : out + " ms";
}

std::string last_text(const Last& last) {
  const std::string& place = last.place;
  if (last.is_slowest) return fmt::format(" (slowest {} {})", place, time_text(last.time));
  std::string who = last.rank ? fmt::format("rank {} on {}", *last.rank, place) : place;
  if (last.why.empty()) return fmt::format(" (last: {})", who);
  return fmt::format(" (last: {}, {} {})", who, last.why, time_text(last.time));
}

std::string steps_text(const std::vector<LaunchStep>& steps) {
  std::string out;
  for (const LaunchStep& each : steps) {
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {}{}", each.name, time_text(each.time), each.last ? last_text(*each.last) : "");
  }
  return out;
}

// What comes first is not also named as last.
std::string run_text(const std::vector<LaunchStep>& steps) {
  std::string out;
  for (const LaunchStep& each : steps) {
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {}", each.name, time_text(each.time));
    if (!each.last || !each.last->rank) continue;
    const char* which = each.name.starts_with("first") ? "" : "last: ";
    out += fmt::format(" ({}rank {} on {})", which, *each.last->rank, each.last->place);
  }
  return out;
}

std::string places_text(const Summary::Missing& missing) {
  std::string out;
  std::size_t shown = std::min(kMostPlaces, missing.places.size());
  for (std::size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : ", ") + missing.places[i];
  std::uint64_t others = missing.others + (missing.places.size() - shown);
  return others == 0 ? out : fmt::format("{} and {} others", out, others);
}

std::string clocks_text(const Summary::ClockError& clocks) {
  const std::string& place = clocks.place;
  if (clocks.most == Clock::kUnknown)
    return fmt::format("clocks: nothing is known of that of {}, whose times may be wrong", place);
  return fmt::format("clocks: known to ±{} (worst {})", with_unit(clocks.most), place);
}

}  // namespace

void fields(auto& io, wire::Of<Last> auto& m) {
  io.has("shell", m.shell);
  io.has("place", m.place);
  io.may_have("rank", m.rank);
  io.may_have("why", m.why);
  io.may_have("slowest", m.is_slowest);
  io.has_if(m.is_slowest || !m.why.empty(), "took", m.time, InSeconds());
}

void fields(auto& io, wire::Of<LaunchStep> auto& m) {
  io.has("name", m.name);
  io.has("time", m.time, InSeconds());
  io.may_have("last", m.last);
}

void fields(auto& io, wire::Of<Summary::ClockError> auto& m) {
  std::optional<Time> known;
  if (!wire::kReads<decltype(io)> && m.most != Clock::kUnknown) known = m.most;
  io.has("worst", m.place);
  io.may_lack("uncertainty", known, InSeconds());
  if constexpr (wire::kReads<decltype(io)>) m.most = known.value_or(Clock::kUnknown);
}

void fields(auto& io, wire::Of<Summary::Missing> auto& m) {
  io.has("places", m.places);
  io.has("others", m.others);
}

void fields(auto& io, wire::Of<Summary> auto& m) {
  io.has("launch", m.launch, InSeconds());
  io.has("launched", m.has_launched);
  io.has("steps", m.launch_steps);
  io.has("run", m.run_steps);
  io.has("end", m.end_steps);
  io.has("dropped", m.dropped);
  io.has_if(!m.clocks.place.empty(), "clocks", m.clocks);
  io.has_if(!m.lost.places.empty(), "lost", m.lost);
  io.has_if(!m.late.places.empty(), "late", m.late);
}

Json Summary::json() const { return wire::to_json(*this); }

Result<Summary> Summary::parse(const Json& json) { return wire::from_json<Summary>(json); }

std::string text_of(const Summary& summary, const std::string& prefix) {
  std::string out;
  auto line = [&](const std::string& text) { out += prefix + text + '\n'; };
  line(fmt::format("launch {}{}: {}", with_unit(summary.launch), summary.has_launched ? "" : ", not complete",
                   summary.launch_steps.empty() ? "nothing is known" : steps_text(summary.launch_steps)));
  if (!summary.run_steps.empty()) line("tasks, ms after it: " + run_text(summary.run_steps));
  if (!summary.end_steps.empty()) {
    Time all = 0;
    for (const LaunchStep& each : summary.end_steps) all += each.time;
    line(fmt::format("end {}: {}", with_unit(all), steps_text(summary.end_steps)));
  }
  if (!summary.clocks.place.empty() && summary.clocks.most > 0) line(clocks_text(summary.clocks));
  if (!summary.lost.places.empty())
    line(fmt::format("missing: {}, which the job has lost: what was not here by then", places_text(summary.lost)));
  if (!summary.late.places.empty())
    line(fmt::format("missing: {}, which has not answered in time", places_text(summary.late)));
  if (summary.dropped > 0)
    line(fmt::format("dropped: the newest {} events, of which a shell keeps 65536", summary.dropped));
  return out;
}

}  // namespace nacre::timeline
