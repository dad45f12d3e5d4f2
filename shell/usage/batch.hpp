// SPDX-License-Identifier: Apache-2.0
//
// What a shell sends the leader of its tasks' usage: doc/protocol.md, "Usage of tasks".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "usage/measure.hpp"
#include "usage/row.hpp"

namespace nacre::usage {

struct UsageBatch {
  static constexpr std::size_t kMostRows = 64;

  std::vector<TaskRow> rows;
  std::optional<NodeRow> node;   // in the last one: nothing more comes from this shell
  std::optional<Totals> totals;  // in the last one, where the job has too many tasks for rows

  [[nodiscard]] std::string text() const;
  static Result<UsageBatch> parse(std::string_view text);
  bool operator==(const UsageBatch&) const = default;
};

}  // namespace nacre::usage
