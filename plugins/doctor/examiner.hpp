// SPDX-License-Identifier: Apache-2.0
//
// What the plugin `doctor` offers to those that have somebody who asks for it.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "doctor/findings.hpp"
#include "plugin/host.hpp"
#include "plugins/doctor/stack_taker.hpp"

namespace nacre::plugins {

struct ExaminationOrder {
  static constexpr double kLeastInterval = 0.05;  // seconds
  static constexpr double kMostInterval = 60;
  static constexpr double kMostAnswerTime = 2;  // seconds beyond what the examination takes

  double interval = 1;   // seconds between the two looks at each process
  bool by_rank = false;  // the answer has rows
  StackWay stacks = StackWay::none;
  bool only_silence = false;  // nothing but Examined::silent is wanted

  [[nodiscard]] Json json() const;
  // An error names the member.
  static Result<ExaminationOrder> parse(const Json& json);
  // Seconds until a shell that has not answered is absent.
  [[nodiscard]] double most_time() const;
  // The same for one that has not even said that it is at it; it is named 2 s after it was asked.
  [[nodiscard]] double most_silent_time() const;
};

struct Examined {
  doctor::Examination examination;
  std::vector<doctor::Verdict> verdicts;
  std::vector<doctor::TaskGroup> rows;  // by_rank: a group for each rank
  // only_silence: seconds since a task has done anything that can be seen, of the shells that have answered
  double silent = std::numeric_limits<double>::infinity();
};

class Examiner {
 public:
  virtual ~Examiner() = default;
  // On the leader: `done` is called once, from the loop. EBUSY: too many are under way. `silent`, if there is one,
  // is called before it, at most once: with the shells that have said nothing after kMostAnswerTime.
  virtual Result<void> examine(const ExaminationOrder& order, std::function<void(Examined)> done,
                               std::function<void(std::vector<doctor::Absent>)> silent) = 0;
  // On the leader: what was found last, json_of() with the member `time`; null: nobody has asked.
  [[nodiscard]] virtual Json last_look() const = 0;
};

// The answer of doc/control.md, "doctor": with as many groups as fit into so many bytes.
[[nodiscard]] Json json_of(const Examined& examined, std::size_t most);

// The one that the plugin `doctor` is; null: another plugin has taken its place.
[[nodiscard]] Examiner* examiner_of(plugin::Host& host);

}  // namespace nacre::plugins
