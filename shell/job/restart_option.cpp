// SPDX-License-Identifier: Apache-2.0
#include "job/restart_option.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "job/option_types.hpp"

namespace nacre::job {
namespace {

using When = RestartOption::When;
using Scope = RestartOption::Scope;
using Where = RestartOption::Where;

constexpr std::array<std::pair<std::string_view, When>, 4> kWhens{{{"never", When::never},
                                                                   {"on-request", When::on_request},
                                                                   {"on-failure", When::on_failure},
                                                                   {"always", When::always}}};
constexpr std::array<std::pair<std::string_view, Scope>, 3> kScopes{
    {{"task", Scope::task}, {"node", Scope::node}, {"job", Scope::job}}};
constexpr std::array<std::pair<std::string_view, Where>, 3> kWheres{
    {{"same", Where::same}, {"spare", Where::spare}, {"any", Where::any}}};

constexpr int kLimits = 4;  // so many of the members are

Error wrong(const JsonAt& option, std::string_view name, std::string_view value, std::string_view want) {
  return option.error(fmt::format("{}: expected {}, got {}", name, want, in_quotes(value)));
}

Result<std::uint64_t> count_of(const JsonAt& option, std::string_view name, std::string_view value) {
  auto count = parse_u64(value);
  if (count && *count >= 1 && *count <= RestartOption::kMost) return *count;
  return wrong(option, name, value,
               fmt::format("a number of restarts, 1 to {} (restart=never is none)", RestartOption::kMost));
}

Result<void> read_backoff(const JsonAt& option, std::string_view value, RestartOption& out) {
  std::size_t colon = value.find(':');
  auto first = value::Duration::parse(value.substr(0, colon));
  auto longest = colon == std::string_view::npos ? first : value::Duration::parse(value.substr(colon + 1));
  if (!first || !longest || longest->is_infinite() || *longest < *first)
    return wrong(option, "backoff", value, "a time, or two as 1s:60s, the first and the longest");
  out.first = *first;
  out.longest = colon == std::string_view::npos ? std::max(*first, out.longest) : *longest;
  return {};
}

Result<void> read_member(const JsonAt& option, std::string_view name, std::string_view value, RestartOption& out) {
  static const std::vector<std::string> kNames{"max", "per-task", "backoff", "codes", "scope", "where"};
  bool is_limit = std::find(kNames.begin(), kNames.begin() + kLimits, name) != kNames.begin() + kLimits;
  if (is_limit && out.when == When::on_request)
    return option.error(
        "on-request has no limits, as only nacre restart starts tasks again: it has scope and where only");
  if (name == "max") {
    out.max = TRY(count_of(option, name, value));
  } else if (name == "per-task") {
    out.per_task = TRY(count_of(option, name, value));
  } else if (name == "backoff") {
    return read_backoff(option, value, out);
  } else if (name == "codes") {
    Json codes(std::string{value});
    auto set = exit_codes_option(JsonAt::root(codes));
    if (!set) return wrong(option, name, value, "exit codes, 1 to 255, as 77 or 64-78,99 (128+N: signal N)");
    out.codes = *std::move(set);
  } else if (name == "scope") {
    auto scope =
        std::find_if(kScopes.begin(), kScopes.end(), [&](const auto& each) { return each.first == value; });
    if (scope == kScopes.end()) return wrong(option, name, value, "task, node or job");
    out.scope = scope->second;
  } else if (name == "where") {
    auto where =
        std::find_if(kWheres.begin(), kWheres.end(), [&](const auto& each) { return each.first == value; });
    if (where == kWheres.end()) return wrong(option, name, value, "same, spare or any");
    out.where = where->second;
  } else {
    return option.error(fmt::format("there is no {}{}; restart has {}", in_quotes(name), did_you_mean(name, kNames),
                                    fmt::join(kNames, ", ")));
  }
  return {};
}

// What follows a comma, NAME=VALUE each; codes go on behind a comma.
Result<void> read_members(const JsonAt& option, std::string_view text, RestartOption& out) {
  std::string name, value;
  for (std::string_view part : split(text, ',')) {
    std::size_t equals = part.find('=');
    if (equals == std::string_view::npos && name == "codes") {
      value += fmt::format(",{}", part);
      continue;
    }
    if (!name.empty()) CHECK_OK(read_member(option, name, value, out));
    if (equals == std::string_view::npos)
      return option.error(fmt::format("expected NAME=VALUE behind a comma, got {}", in_quotes(part)));
    name = part.substr(0, equals);
    value = part.substr(equals + 1);
  }
  return read_member(option, name, value, out);
}

}  // namespace

Result<RestartOption> RestartOption::read(const Options& options) {
  RestartOption out;
  auto option = options.at("restart");
  if (!option) return out;
  std::string text = option->json().is_string() ? TRY(option->string()) : "";
  std::size_t comma = text.find(',');
  std::string_view word = std::string_view(text).substr(0, comma);
  auto when = std::find_if(kWhens.begin(), kWhens.end(), [&](const auto& each) { return each.first == word; });
  if (when == kWhens.end())
    return option->expected(
        "never, on-request, on-failure or always, and perhaps more, as on-failure,max=5,backoff=1s:60s");
  out.when = when->second;
  if (comma == std::string::npos) return out;
  CHECK_OK(read_members(*option, std::string_view(text).substr(comma + 1), out));
  if (out.when == When::never) return option->error("never has no members: leave them out");
  if (out.when == When::on_request && out.where == Where::spare)
    return option->error("on-request starts tasks where they were: where=spare is for on-failure and always");
  if (out.when == When::always && !out.codes.empty())
    return option->error("codes chooses among failures, and always means each end: use on-failure with codes");
  return out;
}

}  // namespace nacre::job
