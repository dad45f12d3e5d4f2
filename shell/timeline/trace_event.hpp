// SPDX-License-Identifier: Apache-2.0
//
// One event of a trace and its text, which is made without a document of JSON: a job has several for each task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nacre::timeline {

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
  [[nodiscard]] std::string text() const;
};

// Text as a string of JSON, with its quotes.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace nacre::timeline
