// SPDX-License-Identifier: Apache-2.0
#include "job/end_time.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::job {
namespace {

constexpr const char* kSlurm = "SLURM_JOB_END_TIME";
constexpr std::uint64_t kLatest = std::uint64_t{1} << 40;  // seconds since the Epoch

}  // namespace

Result<std::optional<EndTime>> manager_end(const Variables& variables) {
  auto text = variables(kSlurm);
  if (!text || text->empty() || *text == "0") return std::optional<EndTime>();
  auto seconds = parse_u64(*text);
  if (!seconds || *seconds > kLatest)
    return invalid(fmt::format("{}: expected seconds since the Epoch, got {}", kSlurm, in_quotes(*text)));
  return std::optional(EndTime{static_cast<double>(*seconds), "the time that Slurm has given is over"});
}

Result<std::optional<EndTime>> end_time(const Resources& resources, const Variables& variables) {
  if (resources.expiration > 0) return std::optional(EndTime{resources.expiration, "R has expired"});
  return manager_end(variables);
}

}  // namespace nacre::job
