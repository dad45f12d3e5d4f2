// SPDX-License-Identifier: Apache-2.0
#include "job/end_time.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/option_types.hpp"

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

Result<std::optional<value::Duration>> time_limit(const Options& options) {
  auto option = options.at("time-limit");
  if (!option) return std::optional<value::Duration>();
  if (option->json() == "none") return std::optional(value::Duration::infinite());
  auto wanted = TRY(seconds_option(*option));
  if (wanted.seconds() <= 0) return option->expected("a time that is not 0, or none");
  return std::optional(wanted);
}

std::optional<EndTime> earliest_end(const Resources& resources, const std::optional<EndTime>& manager,
                                    const std::optional<value::Duration>& limit, double duration, double start) {
  std::optional<EndTime> out = manager;
  auto add = [&](double at, std::string over) {
    if (!out || at < out->at) out = EndTime{at, std::move(over)};
  };
  if (resources.expiration > 0) add(resources.expiration, "R has expired");
  if (limit && !limit->is_infinite())
    add(start + limit->seconds(), fmt::format("time-limit: {} are over", limit->str()));
  if (!limit && duration > 0)
    add(start + duration,
        fmt::format("the jobspec's duration of {} is over", value::Duration::of_seconds(duration).str()));
  return out;
}

Result<std::optional<double>> parse_slurm_time_left(std::string_view text) {
  constexpr std::uint64_t kMost = 1'000'000'000;  // seconds, or days; more than any job has
  text = trim(text);
  if (text == "UNLIMITED" || text == "NOT_SET") return std::optional<double>();
  Error wrong = invalid(fmt::format("expected [DAYS-]HOURS:MINUTES:SECONDS, got {}", in_quotes(text)));
  double seconds = 0;
  if (std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    auto days = parse_u64(text.substr(0, dash));
    if (!days || *days > kMost) return wrong;
    seconds = static_cast<double>(*days) * 86400;
    text.remove_prefix(dash + 1);
  }
  double clock = 0;
  auto parts = split(text, ':');
  for (std::string_view each : parts) {
    auto number = parse_u64(each);
    if (!number || *number > kMost || parts.size() > 3) return wrong;
    clock = clock * 60 + static_cast<double>(*number);
  }
  return std::optional(seconds + clock);
}

}  // namespace nacre::job
