// SPDX-License-Identifier: Apache-2.0
//
// What `nacre plugin check` concludes from files and from what a shell has printed: pure functions.
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

// Judges a subscription to `topic` (a glob): none if some shell calls it. For a name that looks misspelt the
// finding names the nearest one. Other unknown names are only notes, as plugins may call topics of their own.
[[nodiscard]] std::optional<Finding> judge_topic(const std::string& topic);

// Compares the first bytes of a file with those of a program of this machine.
[[nodiscard]] std::optional<Finding> judge_object(std::string_view file, std::string_view program);

// Symbols and libraries that the dynamic loader does not find, by what glibc's loader prints when it traces with
// LD_WARN.
[[nodiscard]] std::vector<Finding> missing_in(std::string_view trace);

// Whether `object` takes the variable environ from libc, by what the loader prints with LD_DEBUG=bindings.
[[nodiscard]] bool uses_environ(std::string_view trace, const std::string& object);

// The sandbox writes a line for each call of a topic, "> TOPIC" before the plugin's turn and "< TOPIC" after it.
// The innermost call that has not returned; none if all have.
[[nodiscard]] std::optional<std::string> open_call(std::string_view trace);
// The call that has returned last; "" if none has.
[[nodiscard]] std::string last_call(std::string_view trace);

// Finds "plugin 'NAME' crashed in TOPIC (SIGNAL)" in what a shell has printed: {TOPIC, SIGNAL}.
struct Crash {
  std::string topic;
  std::string signal;
};
[[nodiscard]] std::optional<Crash> crash_in(std::string_view output);

// Why a shell has failed, by what it has printed: the first error in its log (the plugin's own text, if it has
// logged one), the last one, and the last line that is not of the log; "" if there are none.
[[nodiscard]] std::string reason_in(std::string_view output);

}  // namespace nacre::cli
