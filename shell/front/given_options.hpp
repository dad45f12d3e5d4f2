// SPDX-License-Identifier: Apache-2.0
//
// Options of a verb that stand for options of the shell, which -o sets too: what is given both ways has to be the
// same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"

namespace nacre::front {

// What an option is set to that may have a value, and has none.
inline constexpr const char* kWithoutValue = "true";

struct GivenOption {
  std::string word;  // as it was given: "--report=end.json"
  std::string name;  // of the shell's option, a dotted path: "report"
  Json value;        // null: none that -o could set
};

// "A and B contradict each other: give one of them".
[[nodiscard]] std::string contradiction(std::string_view one, std::string_view other);

// `setopt`: the arguments of -o. An error: one of them is none, or sets one of `given` to
// another value.
Result<void> refuse_contradictions(const std::vector<GivenOption>& given, const std::vector<std::string>& setopt);

// For --explain: that the options of both, by their paths, are of the command line.
[[nodiscard]] std::map<std::string, std::string> sources_of(const std::vector<GivenOption>& given,
                                                            const std::vector<std::string>& setopt);

}  // namespace nacre::front
