// SPDX-License-Identifier: Apache-2.0
#include "usage/joblog.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::usage {

std::string joblog_head() { return "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"; }

// Nothing is sent before a job as GNU parallel does with --transferfile; what is received is the output.
std::string joblog_line(const TaskRow& row, std::string_view host, std::string_view command) {
  std::string shown(command);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  std::uint64_t received = row.out.value_or(0) + row.err.value_or(0);
  return fmt::format("{}\t{}\t{:.3f}\t{:10.3f}\t0\t{}\t{}\t{}\t{}\n", std::uint64_t{row.rank} + 1,
                     host.empty() ? ":" : host, row.started.value_or(0), row.wall, received, row.status.exit_code(),
                     row.status.signal(), shown);
}

}  // namespace nacre::usage
