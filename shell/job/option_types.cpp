// SPDX-License-Identifier: Apache-2.0
#include "job/option_types.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::job {
namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr double kStep = 1024;
constexpr double kMost = 1e18;  // bytes
constexpr value::Idset::Id kMaxCode = 255;
constexpr double kAll = 100;  // percent

// "25%" of them.
std::optional<std::uint64_t> share_of(const std::string& text, std::uint64_t job_tasks) {
  double percent = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || std::string_view(end) != "%" || !(percent > 0 && percent <= kAll)) return {};
  // 7% of 100 is 7, though 7.0 / 100 * 100 is a little more.
  double tasks = std::ceil(percent * static_cast<double>(job_tasks) / kAll - 1e-9);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(tasks));
}

}  // namespace

Result<value::Duration> seconds_option(const JsonAt& option) {
  if (option.json().is_number()) {
    double seconds = TRY(option.number());
    if (seconds < 0) return option.expected("a time that is not negative");
    return value::Duration::of_seconds(seconds);
  }
  if (!option.json().is_string()) return option.expected("seconds or a duration such as \"30s\"");
  return in(option.path(), value::Duration::parse(TRY(option.string())));
}

Result<std::uint64_t> size_option(const JsonAt& option) {
  auto wrong = [&] { return option.expected("a number of bytes, such as 4096 or \"10M\""); };
  double size = 0;
  if (option.json().is_number()) {
    size = TRY(option.number());
  } else {
    if (!option.json().is_string()) return wrong();
    std::string text = TRY(option.string());
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    std::string_view unit = std::string_view(text).substr(static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || unit.size() > 1) return wrong();
    if (!unit.empty()) {
      std::size_t power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
      if (power == std::string_view::npos) return wrong();
      for (std::size_t i = 0; i <= power; ++i) size *= kStep;
    }
  }
  if (!(size >= 0 && size <= kMost)) return wrong();
  return static_cast<std::uint64_t>(size);
}

Result<std::optional<value::Idset>> ranks_option(const JsonAt& option) {
  const Json& json = option.json();
  std::string text = json.is_string() ? json.get<std::string>() : dump_json(json);
  if (text == "all") return std::optional<value::Idset>();
  return std::optional<value::Idset>(TRY(in(option.path(), value::Idset::parse(text))));
}

Result<std::optional<value::Idset>> ranks_option(const JsonAt& option, std::uint64_t tasks) {
  auto ranks = TRY(ranks_option(option));
  CHECK_OK(check_ranks(option.path(), ranks, tasks));
  return ranks;
}

Result<void> check_ranks(const std::string& place, const std::optional<value::Idset>& ranks, std::uint64_t tasks) {
  if (!ranks || ranks->empty() || *ranks->last() < tasks) return {};
  std::string has = tasks == 1 ? "its only one is 0" : fmt::format("it has 0-{}", tasks - 1);
  return invalid(fmt::format("{}: the job has no task {}; {}", place, *ranks->last(), has));
}

Result<value::Idset> exit_codes_option(const JsonAt& option) {
  auto wrong = [&] { return option.expected(fmt::format("exit codes, 1 to {}, as 77 or 64-78,99", kMaxCode)); };
  auto codes = ranks_option(option);
  if (!codes || !*codes || (*codes)->empty()) return wrong();
  if ((*codes)->contains(0) || *(*codes)->last() > kMaxCode) return wrong();
  return **codes;
}

Result<FailureLimit> failure_limit_option(const JsonAt& option, std::uint64_t job_tasks) {
  if (option.json() == "first") return FailureLimit{1, true};
  std::string text = option.json().is_string() ? option.json().get<std::string>() : dump_json(option.json());
  if (auto number = parse_u64(text)) return FailureLimit{*number, false};
  if (option.json().is_string()) {
    if (auto share = share_of(text, job_tasks)) return FailureLimit{*share, false};
  }
  bool is_switch = option.json().is_boolean() || text == "on" || text == "off" || text == "true" || text == "false";
  if (!is_switch)
    return option.expected("on or off, a number of tasks, a share of the job's such as \"25%\", or \"first\"");
  bool is_on = TRY(switch_of(option));
  return FailureLimit{is_on ? 1U : 0U, false};
}

Result<std::vector<std::string>> list_option(const JsonAt& option) {
  if (option.json().is_array()) return option.strings();
  // the command line makes a number of a name of digits
  std::string text = option.json().is_number_integer() ? option.json().dump() : TRY(option.string());
  std::vector<std::string> names;
  for (std::string_view name : split(text, ',')) names.emplace_back(trim(name));
  return names;
}

Result<value::Duration> kill_timeout(const Options& options) {
  auto option = options.at("kill-timeout");
  if (!option) return value::Duration::of_seconds(kDefaultKillTimeout);
  return seconds_option(*option);
}

Result<bool> is_fault_tolerant(const Options& options) {
  auto option = options.at("fault-tolerance");
  if (!option || option->json().is_object()) return option.has_value();
  return switch_of(*option);
}

}  // namespace nacre::job
