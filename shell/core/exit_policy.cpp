// SPDX-License-Identifier: Apache-2.0
#include "core/exit_policy.hpp"

#include <strings.h>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/variable.hpp"
#include "job/option_types.hpp"

namespace nacre::core {
namespace {

using exits::Policy;
using Rank = value::Idset::Id;

constexpr const char* kRole = "BACKENDAI_CLUSTER_ROLE";
constexpr const char* kHost = "BACKENDAI_CLUSTER_HOST";

Result<value::Idset> ok_codes(const job::Options& options) {
  auto option = options.at("exit-ok");
  return option ? job::exit_codes_option(*option) : value::Idset();
}

Result<std::optional<Rank>> chosen_rank(const job::Options& options, const job::Job& job) {
  auto option = options.at("exit-main");
  if (!option) return std::optional<Rank>();
  auto most = static_cast<std::int64_t>(job.tasks()) - 1;
  return std::optional(static_cast<Rank>(TRY(option->integer(0, most))));
}

bool is_same(std::string_view one, std::string_view other) {
  return one.size() == other.size() && ::strncasecmp(one.data(), other.data(), one.size()) == 0;
}

std::string_view up_to_dot(std::string_view name) { return name.substr(0, name.find('.')); }

bool names_host(std::string_view name, std::string_view host) {
  return is_same(name, host) || is_same(up_to_dot(name), up_to_dot(host));
}

std::string variable(const job::Environment& environment, const char* name) {
  if (auto set = environment.get(name)) return std::string(*set);
  return own_variable(name).value_or("");
}

// Only the leader warns, for all shells.
std::optional<Rank> rank_of_main_host(const job::Job& job, const job::Environment& environment, Log& log) {
  Level level = job.shell_rank == 0 ? Level::warn : Level::debug;
  std::string host = variable(environment, kHost);
  if (host.empty() || !is_same(variable(environment, kRole), "main")) return {};
  for (std::uint32_t shell = 0; shell < job.shells(); ++shell) {
    if (!names_host(host, job.resources.nodes[shell].hostname)) continue;
    if (auto first = job.taskmap.ranks_on(shell).first()) return *first;
    log.log(level, "", "{}: host {} has no task of this job, so the main rank is 0", kHost, in_quotes(host));
    return {};
  }
  log.log(level, "", "{}: {} is no host of this job, so the main rank is 0", kHost, in_quotes(host));
  return {};
}

}  // namespace

Result<Policy> chosen_exit_policy(const job::Options& options, const job::Job& job,
                                  const job::Environment& environment, Log& log) {
  Policy::Kind kind = Policy::Kind::max;
  if (auto option = options.at("exit-policy")) {
    std::string name = TRY(option->string());
    auto known = Policy::kind_of(name);
    if (!known) return option->error(known.error().message);
    kind = *known;
  }
  std::optional<Rank> main = TRY(chosen_rank(options, job));
  bool needs_main = kind == Policy::Kind::main || kind == Policy::Kind::main_and_all;
  if (!main && needs_main) main = rank_of_main_host(job, environment, log);
  return Policy(kind, main.value_or(0), TRY(ok_codes(options)));
}

}  // namespace nacre::core
