// SPDX-License-Identifier: Apache-2.0
//
// What a shell sends the leader of its timeline: doc/protocol.md, "The timeline".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "timeline/recorder.hpp"

namespace nacre::timeline {

struct TimelineBatch {
  static constexpr std::size_t kMostEvents = 1536;  // with the names they fit into a record

  std::uint64_t number = 0;  // of the question that it answers; 0: the shell leaves
  Time received = 0;         // when the question came to the shell
  Time sent = 0;
  bool is_last = false;               // of the answer
  std::string clock;                  // equal where the same clock counts; "": not known
  std::uint64_t dropped = 0;          // events so far
  std::vector<std::string> names;     // all so far; in the last one
  std::vector<TimelineEvent> events;  // that were not sent before

  [[nodiscard]] std::string text() const;
  // An error names what is wrong.
  static Result<TimelineBatch> parse(std::string_view text);
  bool operator==(const TimelineBatch&) const = default;
};

}  // namespace nacre::timeline
