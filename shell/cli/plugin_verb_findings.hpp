// SPDX-License-Identifier: Apache-2.0
//
// What `nacre plugin check` makes of what it sees: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::cli {

struct Finding {
  bool is_problem = true;  // else a note
  std::string what;
  std::string remedy;
};

// What is to be said of a subscription to `topic` (a glob): none if some shell calls it. Of a name that looks like
// a misspelt one the nearest is named; others are only noted, as plugins may call topics of their own.
[[nodiscard]] std::optional<Finding> judge_topic(const std::string& topic);

// A file's first bytes against those of a program of this machine.
[[nodiscard]] std::optional<Finding> judge_object(std::string_view file, std::string_view program);

// Symbols and libraries that the dynamic loader misses, by what glibc's prints when it traces with LD_WARN.
[[nodiscard]] std::vector<Finding> missing_in(std::string_view trace);

// The sandbox writes a line for each call of a topic, "> TOPIC" before the plugin's turn and "< TOPIC" after it.
// The innermost call that has not come back; none if all have.
[[nodiscard]] std::optional<std::string> open_call(std::string_view trace);
// The call that came back last; "" if none did.
[[nodiscard]] std::string last_call(std::string_view trace);

// "plugin 'NAME' crashed in TOPIC (SIGNAL)" in what a shell said: {TOPIC, SIGNAL}.
struct Crash {
  std::string topic;
  std::string signal;
};
[[nodiscard]] std::optional<Crash> crash_in(std::string_view said);

// Why a shell failed, by what it said: the first error that was logged (the plugin's own words, if it has any), the
// last one, and the shell's last word; "" if it said none of them.
[[nodiscard]] std::string reason_in(std::string_view said);

}  // namespace nacre::cli
