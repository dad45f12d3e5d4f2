// SPDX-License-Identifier: Apache-2.0
//
// The timeline as Chrome trace events, which ui.perfetto.dev and chrome://tracing open: a process for each shell,
// a thread for each rank and one for the shell itself; times in microseconds from the first event on. The format is
// the public document "Trace Event Format".
#pragma once

#include "base/json.hpp"
#include "timeline/facts.hpp"
#include "timeline/recorder.hpp"

namespace nacre::timeline {

inline constexpr std::size_t kMostTraceEvents = 200'000;

struct Trace {
  std::vector<std::string> events;  // JSON objects: names first, then in the order of time
  Json about;  // "otherData": what is sampled, dropped and missing, and how exact the clocks are

  // The whole document.
  [[nodiscard]] std::string text() const;
};

// `most`: events; if there are more, the slowest ranks and a sample are shown, and `about` names them.
[[nodiscard]] Trace trace_of(const JobTimeline& job, const Facts& facts, std::size_t most = kMostTraceEvents);

// The same document in parts: what comes before the events, between two of them, and after them.
[[nodiscard]] std::string trace_head();
[[nodiscard]] std::string trace_tail(const Json& about);

// One of many things of which a trace shows some: the slowest 1 %, and of the others as many as there is room for,
// evenly.
struct Sampled {
  Time time = 0;           // that it took
  std::size_t events = 0;  // that it would have in the trace
};

// For each, whether it is shown; all are if they have at most `budget` events. At least the slowest one is.
[[nodiscard]] std::vector<bool> sample_of(const std::vector<Sampled>& all, std::size_t budget);

}  // namespace nacre::timeline
