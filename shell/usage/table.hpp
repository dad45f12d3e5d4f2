// SPDX-License-Identifier: Apache-2.0
//
// The usage of a job's tasks, on its leader: rows, or in a large job only their totals; and what follows from them,
// as the JSON object that nacre-report(1) describes under USAGE.
#pragma once

#include "usage/measure.hpp"
#include "value/idset.hpp"

namespace nacre::usage {

inline constexpr std::uint64_t kMostTasks = 100'000;            // of a job whose tasks have rows
inline constexpr std::size_t kMostOutliers = 16;                // that a summary names
inline constexpr std::size_t kFewCells = 32;                    // of a measure by rank, as it is kept
inline constexpr std::size_t kMostCells = 512;                  // the same, for a picture
inline constexpr double kFarDeviations = 3;                     // median absolute deviations that make an outlier
inline constexpr std::size_t kMostKept = std::size_t{8} << 10;  // bytes of a summary in the list of jobs

// The names of hosts, by rank and by shell.
struct Hosts {
  std::function<std::string(std::uint32_t rank)> of_task;
  std::function<std::string(std::uint32_t shell)> of_shell;
};

class UsageTable {
 public:
  // The first row of a rank counts, and the first node of a shell.
  void add(const UsageBatch& batch);

  [[nodiscard]] const std::map<std::uint32_t, TaskRow>& rows() const { return rows_; }    // by rank
  [[nodiscard]] const std::map<std::uint32_t, NodeRow>& nodes() const { return nodes_; }  // by shell
  [[nodiscard]] Totals totals() const;
  // Tasks that have a row.
  [[nodiscard]] value::Idset ranks() const;

  // `tasks`: how many the job has. `missing`: tasks from which nothing has come, as their shell is lost or late.
  // `cells`: the most values of a measure by rank, from 1 on.
  [[nodiscard]] Json summary(std::uint64_t tasks, const value::Idset& missing, const Hosts& hosts,
                             std::size_t cells = kFewCells) const;

 private:
  [[nodiscard]] Json measure(std::size_t number, const Spread& spread, const Hosts& hosts, Json& outliers) const;
  [[nodiscard]] Json by_rank(const Measure& measure, std::uint64_t tasks, std::size_t cells) const;

  std::map<std::uint32_t, TaskRow> rows_;
  std::map<std::uint32_t, NodeRow> nodes_;
  Totals totals_;  // of the rows that shells have not sent
};

// Returns `summary` itself if it has at most `most` bytes as text; otherwise without its largest parts, and with
// "shortened": true. The measures by rank are dropped first, without that member.
[[nodiscard]] Json fitting_summary(Json summary, std::size_t most = kMostKept);

// A job's usage for people: nacre-report(1), "USAGE".

// Whether the summary is only what wait4(2) has told: then it has no measures, and nothing by task or node.
[[nodiscard]] bool is_unmeasured(const Json& summary);

// Lines that begin with `prefix`. `summary`: as UsageTable makes it, or an unmeasured one; members that are missing
// or of another type are left out. `has_blocks`: with a column of block characters, UTF-8, that has each measure by
// rank.
[[nodiscard]] std::string summary_text(const Json& summary, std::string_view prefix, bool has_blocks = false);

// A table of tasks, of TaskRow::json(), with a line of titles.
[[nodiscard]] std::string rows_text(const Json& rows);

// A job's usage as a picture, in SVG: a panel for each measure that a summary has by rank, with a bar for each
// task, or for several neighbours; else how many tasks have which value. Nothing else is needed to draw it.

inline constexpr std::size_t kMostTitle = 100;  // bytes of a command in a title

// A whole document. `summary`: as UsageTable makes it; members that are missing or of another type are left out.
// `title`: any text.
[[nodiscard]] std::string svg_of(const Json& summary, std::string_view title);

}  // namespace nacre::usage
