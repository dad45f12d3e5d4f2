// SPDX-License-Identifier: Apache-2.0
//
// An option that is a time: a number of seconds, or text in Flux Standard Duration (RFC 23).
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "value/duration.hpp"

namespace nacre::plugins {

inline Result<value::Duration> seconds_option(const JsonAt& option) {
  if (option.json().is_number()) {
    double seconds = TRY(option.number());
    if (seconds < 0) return option.expected("a time that is not negative");
    return value::Duration::of_seconds(seconds);
  }
  if (!option.json().is_string()) return option.expected("seconds or a duration such as \"30s\"");
  return in(option.path(), value::Duration::parse(TRY(option.string())));
}

}  // namespace nacre::plugins
