// SPDX-License-Identifier: Apache-2.0
//
// The options of PMI: which interfaces tasks are offered, and what the loss of a process means.
#pragma once

#include "job/options.hpp"

namespace nacre::plugins {

struct PmiOptions {
  // `pmi`: a list of these, `off`, or an object with the list in `use`.
  bool simple = true;  // PMI-1
  bool pmi2 = true;
  bool pmix = false;                // for the plugin of that name
  std::vector<std::string> others;  // names in the list that belong to other plugins
  bool chosen = false;              // the list was given
  bool explain = false;             // pmi.explain
  value::Duration hang_report = value::Duration::of_seconds(kHangReport);  // pmi.hang-report
  std::uint64_t max_size = kMaxSize;                                       // pmi.max-size: bytes
  bool library = false;                                                    // pmi.library
  bool port = false;                                                       // pmi.port
  bool groups = true;                                                      // pmi.groups: PMI 1.2
  std::string universe;                                                    // pmi.universe: "", infinite, system, N
  bool nomap = false;                                                      // pmi-simple.nomap
  bool fault_tolerant = false;                                             // fault-tolerance
  bool starts_again = false;  // restart: all tasks start again together if one fails; not with fault-tolerance
  bool replaces = false;      // the same if a shell is lost: on-lost=replace
  int fault_signal = 0;       // fault-tolerance.signal; 0: none

  static Result<PmiOptions> read(const job::Options& options);

  [[nodiscard]] bool on() const { return simple || pmi2; }

 private:
  static constexpr double kHangReport = 60;  // seconds
  static constexpr std::uint64_t kMaxSize = std::uint64_t{64} << 20;
};

}  // namespace nacre::plugins
