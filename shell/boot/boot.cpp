// SPDX-License-Identifier: Apache-2.0
#include "boot/boot.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "boot/identity.hpp"
#include "boot/ways.hpp"

namespace nacre::boot {
namespace {

constexpr std::array<std::pair<std::string_view, Way>, 6> kWays{{{"auto", Way::automatic},
                                                                 {"standalone", Way::standalone},
                                                                 {"pmi", Way::pmi},
                                                                 {"pmix", Way::pmix},
                                                                 {"slurm", Way::slurm},
                                                                 {"hosts", Way::hosts}}};

Boot boot_alone(const BootRequest& request) {
  Boot out;
  out.id = request.id.value_or(new_job_id());
  out.how = "standalone: it was asked for";
  return out;
}

bool has(const BootRequest& request, const char* name) { return request.variables(name).has_value(); }

Result<Boot> choose(const BootRequest& request) {
  if (has(request, "PMI_FD")) return boot_by_pmi(request);
  std::string others = "pmi: PMI_FD is not set";
  if (has(request, "PMIX_NAMESPACE") && has(request, "PMIX_RANK")) {
    Boot out = TRY(boot_by_pmix(request));
    out.how += fmt::format("; not {}", others);
    return out;
  }
  others +=
      fmt::format("; not pmix: {} is not set", has(request, "PMIX_NAMESPACE") ? "PMIX_RANK" : "PMIX_NAMESPACE");
  // A batch script has the first variable without the second.
  if (has(request, "SLURM_PROCID") && has(request, "SLURM_STEP_ID")) {
    Boot out = TRY(boot_by_slurm(request));
    out.how += fmt::format("; not {}", others);
    return out;
  }
  Boot out = boot_alone(request);
  out.how = fmt::format("standalone: no sign of other shells; not {}; not slurm: {} is not set", others,
                        has(request, "SLURM_PROCID") ? "SLURM_STEP_ID" : "SLURM_PROCID");
  return out;
}

}  // namespace

std::string_view way_name(Way way) {
  for (const auto& [name, each] : kWays) {
    if (each == way) return name;
  }
  return "?";
}

Result<Way> parse_way(std::string_view name) {
  for (const auto& [known, way] : kWays) {
    if (known == name) return way;
  }
  return invalid(fmt::format("expected auto, standalone, pmi, pmix, slurm or hosts, got {}", in_quotes(name)));
}

namespace {

Result<Boot> boot_by_way(const BootRequest& request) {
  if (request.record) return boot_by_own_record(request);
  switch (request.way) {
    case Way::standalone: return boot_alone(request);
    case Way::pmi: return boot_by_pmi(request);
    case Way::pmix: return boot_by_pmix(request);
    case Way::slurm: return boot_by_slurm(request);
    case Way::hosts: return boot_by_record(request);
    case Way::automatic: break;
  }
  return choose(request);
}

}  // namespace

Result<Boot> boot(const BootRequest& request) {
  CHECK_OK(check_arity(request.arity));
  Boot out = TRY(boot_by_way(request));
  if (!out.record) return out;
  // Over ssh a shell has a login's environment, and its umask. The user's files are where the launcher's
  // environment has them.
  for (const auto& [name, value] : out.record->environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (out.record->umask) ::umask(*out.record->umask);
  return out;
}

// ---- shared by the ways --------------------------------------------------------

Result<std::uint64_t> number_of(const Variables& variables, const char* name, std::uint64_t most) {
  auto text = variables(name);
  if (!text) return Error{ENOENT, fmt::format("{} is not set", name)};
  auto number = parse_u64(*text);
  if (number && *number <= most) return *number;
  return invalid(fmt::format("{}: expected a number up to {}, got {}", name, most, in_quotes(*text)));
}

std::string seen_of(const Variables& variables, std::initializer_list<const char*> names) {
  std::string seen;
  std::string all;
  for (const char* name : names) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
    if (auto value = variables(name))
      seen += fmt::format("{}{}={}", seen.empty() ? "" : ", ", name, in_quotes(*value));
  }
  return seen.empty() ? "none of " + all : seen;
}

std::string temporary_directory(const Variables& variables) {
  auto directory = variables("TMPDIR");
  return directory && !directory->empty() ? *directory : "/tmp";
}

std::vector<group::Rank> ancestors_of(group::Rank rank, std::uint32_t arity) {
  std::vector<group::Rank> out;
  while (rank > 0) out.push_back(rank = (rank - 1) / arity);
  return out;
}

Result<void> check_arity(std::uint32_t arity) {
  if (arity >= 2 && arity <= launch::LaunchRecord::kMaxArity) return {};
  return invalid(fmt::format("the arity of the tree of shells: expected 2 to {}, got {}",
                             launch::LaunchRecord::kMaxArity, arity));
}

}  // namespace nacre::boot
