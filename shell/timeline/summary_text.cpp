// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"
#include "timeline/summary.hpp"

namespace nacre::timeline {
namespace {

constexpr double kSecond = 1e9;
constexpr std::size_t kMostPlaces = 8;
constexpr std::int64_t kMostShell = UINT32_MAX;

double seconds(Time time) { return static_cast<double>(time) / kSecond; }

Result<Time> time_in(const JsonAt& at, std::string_view key) {
  double value = TRY(TRY(at.at(key)).number());
  constexpr double kMost = 1e9;  // seconds
  if (!(std::abs(value) < kMost)) return TRY(at.at(key)).expected("a time in seconds");
  return std::llround(value * kSecond);
}

// ---- JSON ------------------------------------------------------------------------------

Json json_of(const Last& last) {
  Json out{{"shell", last.shell}, {"place", last.place}};
  if (last.rank) out["rank"] = *last.rank;
  if (!last.why.empty()) out["why"] = last.why;
  if (last.is_slowest) out["slowest"] = true;
  if (last.is_slowest || !last.why.empty()) out["took"] = seconds(last.time);
  return out;
}

Result<Last> last_in(const JsonAt& at) {
  Last out;
  out.shell = static_cast<std::uint32_t>(TRY(TRY(at.at("shell")).integer(0, kMostShell)));
  out.place = TRY(TRY(at.at("place")).string());
  if (auto rank = TRY(at.find("rank"))) out.rank = static_cast<std::uint32_t>(TRY(rank->integer(0, kMostShell)));
  if (auto why = TRY(at.find("why"))) out.why = TRY(why->string());
  if (auto slowest = TRY(at.find("slowest"))) out.is_slowest = TRY(slowest->boolean());
  if (auto took = TRY(at.find("took"))) out.time = TRY(time_in(at, "took"));
  return out;
}

Json json_of(const std::vector<LaunchStep>& steps) {
  Json out = Json::array();
  for (const LaunchStep& each : steps) {
    out.push_back({{"name", each.name}, {"time", seconds(each.time)}});
    if (each.last) out.back()["last"] = json_of(*each.last);
  }
  return out;
}

Result<std::vector<LaunchStep>> steps_in(const JsonAt& at, std::string_view key) {
  std::vector<LaunchStep> out;
  for (const JsonAt& each : TRY(TRY(at.at(key)).elements())) {
    LaunchStep step;
    step.name = TRY(TRY(each.at("name")).string());
    step.time = TRY(time_in(each, "time"));
    if (auto last = TRY(each.find("last"))) step.last = TRY(last_in(*last));
    out.push_back(std::move(step));
  }
  return out;
}

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

// What is first is not last.
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

Json json_of(const Summary::Missing& missing) { return {{"places", missing.places}, {"others", missing.others}}; }

Result<Summary::Missing> missing_in(const JsonAt& at) {
  Summary::Missing out;
  out.places = TRY(TRY(at.at("places")).strings());
  out.others = static_cast<std::uint64_t>(TRY(TRY(at.at("others")).integer(0, INT64_MAX)));
  return out;
}

std::string clocks_text(const Summary::ClockError& clocks) {
  const std::string& place = clocks.place;
  if (clocks.most == Clock::kUnknown)
    return fmt::format("clocks: nothing is known of that of {}, whose times may be wrong", place);
  return fmt::format("clocks: known to ±{} (worst {})", with_unit(clocks.most), place);
}

}  // namespace

Json Summary::json() const {
  Json out{{"launch", seconds(launch)}, {"launched", has_launched},  {"steps", json_of(launch_steps)},
           {"run", json_of(run_steps)}, {"end", json_of(end_steps)}, {"dropped", dropped}};
  if (!clocks.place.empty())
    out["clocks"] = {{"worst", clocks.place},
                     {"uncertainty", clocks.most == Clock::kUnknown ? Json() : Json(seconds(clocks.most))}};
  if (!lost.places.empty()) out["lost"] = json_of(lost);
  if (!late.places.empty()) out["late"] = json_of(late);
  return out;
}

Result<Summary> Summary::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  Summary out;
  out.launch = TRY(time_in(at, "launch"));
  out.has_launched = TRY(TRY(at.at("launched")).boolean());
  out.launch_steps = TRY(steps_in(at, "steps"));
  out.run_steps = TRY(steps_in(at, "run"));
  out.end_steps = TRY(steps_in(at, "end"));
  out.dropped = static_cast<std::uint64_t>(TRY(TRY(at.at("dropped")).integer(0, INT64_MAX)));
  if (auto clocks = TRY(at.find("clocks"))) {
    out.clocks.place = TRY(TRY(clocks->at("worst")).string());
    bool is_known = TRY(clocks->find("uncertainty")).has_value();
    out.clocks.most = is_known ? TRY(time_in(*clocks, "uncertainty")) : Clock::kUnknown;
  }
  if (auto lost = TRY(at.find("lost"))) out.lost = TRY(missing_in(*lost));
  if (auto late = TRY(at.find("late"))) out.late = TRY(missing_in(*late));
  return out;
}

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
