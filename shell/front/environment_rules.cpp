// SPDX-License-Identifier: Apache-2.0
#include "front/environment_rules.hpp"

#include <regex.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "job/environment.hpp"

namespace nacre::front {
namespace {

// SLURM_JOB_* stays: it describes the allocation, and the job finds its hosts by it. The variables that sbatch sets
// for options of srun stay too.
constexpr std::string_view kDropped[] = {
    "PMI_*",
    "PMIX_*",
    "SLURM_STEP*",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASK_PID",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_SRUN_COMM_*",
    "SLURM_CPU_BIND*",
    "SLURM_DISTRIBUTION",
    "SLURM_MPI_TYPE",
    "SLURM_PMI*",
    "SLURM_UMASK",
    "SLURMD_TRES_*",
    "FLUX_TASK_*",
    "FLUX_JOB_*",
    "FLUX_KVS_NAMESPACE",
    "NACRE_TASK_*",
    "NACRE_JOB_*",
    "NACRE_SHELL_ID",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "HYDI_*",
    "HYDRA_*",
    "OMPI_COMM_WORLD_*",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_FIRST_RANKS",
    "OMPI_FILE_LOCATION",
    "OMPI_MCA_ess*",
    "OMPI_MCA_orte_*",
    "PRTE_MCA_*",
    "PALS_*",
};

using Matcher = std::function<bool(const std::string&)>;

struct FreeRegex {
  void operator()(regex_t* regex) const {
    ::regfree(regex);
    delete regex;
  }
};

Result<Matcher> matcher_of_regex(const std::string& text) {
  auto* compiled = new regex_t;
  int code = ::regcomp(compiled, fmt::format("^({})$", text).c_str(), REG_EXTENDED | REG_NOSUB);
  if (code != 0) {
    char why[256];
    ::regerror(code, compiled, why, sizeof why);
    delete compiled;
    return invalid(fmt::format("{} is no regular expression: {}", in_quotes(text), why));
  }
  std::shared_ptr<regex_t> regex(compiled, FreeRegex());
  return Matcher(
      [regex](const std::string& name) { return ::regexec(regex.get(), name.c_str(), 0, nullptr, 0) == 0; });
}

Result<Matcher> matcher_of(std::string_view pattern) {
  if (pattern.empty()) return invalid("expected a name or a pattern, got nothing");
  if (pattern.find('\0') != std::string_view::npos) return invalid("a name cannot have a NUL");
  if (pattern.size() > 2 && pattern.front() == '/' && pattern.back() == '/')
    return matcher_of_regex(std::string(pattern.substr(1, pattern.size() - 2)));
  return Matcher([glob = std::string(pattern)](const std::string& name) { return glob_match(glob, name); });
}

bool is_name_byte(char c, bool first) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!first && c >= '0' && c <= '9');
}

// What follows a dollar sign: the name, and the number of bytes that it takes with its braces. An empty name: no
// variable follows.
struct Reference {
  std::string_view name;
  std::size_t size = 0;
};

Reference reference_at(std::string_view text) {
  bool braced = text.starts_with('{');
  std::size_t begin = braced ? 1 : 0;
  std::size_t end = begin;
  while (end < text.size() && is_name_byte(text[end], end == begin)) ++end;
  if (end == begin || (braced && (end == text.size() || text[end] != '}'))) return {};
  return {text.substr(begin, end - begin), end + begin};
}

}  // namespace

Variables variables_of(const char* const* block) {
  Variables out;
  for (; block != nullptr && *block != nullptr; ++block) {
    std::string_view text = *block;
    std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    out.insert_or_assign(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return out;
}

bool is_of_outer_launcher(std::string_view name) {
  return std::any_of(std::begin(kDropped), std::end(kDropped), [name](std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

void drop_outer_launcher(Variables& variables) {
  std::erase_if(variables, [](const auto& each) { return is_of_outer_launcher(each.first); });
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    auto first = static_cast<unsigned char>(text[i]);
    std::size_t more = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    bool may_start = first < 0x80 || (first >= 0xc2 && first <= 0xf4);
    if (!may_start || text.size() - i <= more) return false;
    std::uint32_t code = more == 0 ? first : first & (0x3fU >> more);
    for (std::size_t n = 1; n <= more; ++n) {
      auto next = static_cast<unsigned char>(text[i + n]);
      if ((next & 0xc0U) != 0x80) return false;
      code = code << 6U | (next & 0x3fU);
    }
    bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    i += more + 1;
  }
  return true;
}

std::vector<std::string> drop_no_utf8(Variables& variables) {
  std::vector<std::string> names;
  std::erase_if(variables, [&names](const auto& each) {
    bool is_text = is_utf8(each.first) && is_utf8(each.second);
    if (!is_text) names.push_back(each.first);
    return !is_text;
  });
  return names;
}

Result<void> EnvironmentRules::apply(std::string_view rule) { return apply_one(rule, false); }

Result<void> EnvironmentRules::apply_file(const std::string& path) {
  return apply_text(TRY(read_file(path, kMaxFile)), path == "-" ? "standard input" : path);
}

Result<void> EnvironmentRules::apply_text(std::string_view text, std::string_view name) {
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty() || line.starts_with('#')) continue;
    CHECK_OK(in(fmt::format("{}: line {}", name, number), apply_one(line, true)));
  }
  return {};
}

Result<void> EnvironmentRules::apply_one(std::string_view rule, bool in_file) {
  if (rule.empty()) return invalid("expected -PATTERN, PATTERN, NAME=TEXT or ^FILE, got nothing");
  if (rule.front() == '-') return remove(rule.substr(1));
  if (rule.front() == '^' && in_file) return invalid("a file of rules cannot name another: put its rules here");
  if (rule.front() == '^') return apply_file(std::string(rule.substr(1)));
  std::size_t equals = rule.find('=');
  if (equals == std::string_view::npos || rule.front() == '/') return take(rule);
  std::string_view name = rule.substr(0, equals);
  std::string value = TRY(in(in_quotes(rule), expand(rule.substr(equals + 1))));
  CHECK_OK(in(in_quotes(rule), job::Environment::check(name, value)));
  job_.insert_or_assign(std::string(name), std::move(value));
  return {};
}

Result<void> EnvironmentRules::remove(std::string_view pattern) {
  Matcher matches = TRY(matcher_of(pattern));
  std::erase_if(job_, [&matches](const auto& each) { return matches(each.first); });
  return {};
}

// A name that is not set is no error, and neither is a pattern that matches nothing.
Result<void> EnvironmentRules::take(std::string_view pattern) {
  Matcher matches = TRY(matcher_of(pattern));
  for (const auto& [name, value] : caller_) {
    if (matches(name)) job_.insert_or_assign(name, value);
  }
  return {};
}

Result<std::string> EnvironmentRules::expand(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    std::size_t dollar = text.find('$');
    out += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar + 1);
    if (text.starts_with('$')) {
      out += '$';
      text.remove_prefix(1);
      continue;
    }
    Reference reference = reference_at(text);
    if (reference.name.empty()) {
      out += '$';
      continue;
    }
    const std::string* value = find(reference.name);
    if (value == nullptr) return invalid(fmt::format("{} is not set; write $$ for a dollar sign", reference.name));
    out += *value;
    text.remove_prefix(reference.size);
  }
  return out;
}

const std::string* EnvironmentRules::find(std::string_view name) const {
  for (const Variables* each : {&job_, &caller_}) {
    if (auto found = each->find(name); found != each->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace nacre::front
