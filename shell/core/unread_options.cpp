// SPDX-License-Identifier: Apache-2.0
#include "core/unread_options.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "job/option_table.hpp"

namespace nacre::core {
namespace {

constexpr const char* kSystem[] = {"cwd", "duration", "environment", "shell",
                                   "job", "files",    "batch"};  // what nacre reads
// What managers of Flux read.
constexpr const char* kManagers[] = {"queue",       "bank",   "project", "urgency",      "dependencies",
                                     "constraints", "alloc",  "exec",    "update",       "begin-time",
                                     "cores",       "pinned", "R",       "alloc-bypass", "preemptible-after"};

bool is_in(std::span<const char* const> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// It is as it would be if nobody had set it.
bool asks_for_nothing(const Json& value) {
  return value == false || value == 0 || value == "off" || value == "none" || value == "false" || value == "0";
}

void add_options(std::vector<std::string>& out, const job::Options& options) {
  for (const auto& [name, value] : options.json().items()) {
    if (options.asked().contains(name)) continue;
    std::string_view file = job::file_that_reads(name);
    if (!file.empty() && !asks_for_nothing(value)) {
      out.push_back(
          fmt::format("the option {} has no effect: only {} of the installed initrc reads it, and this job's "
                      "initrc does not load that",
                      name, file));
      continue;
    }
    if (job::is_known_option(name)) continue;
    std::vector<std::string> names = job::known_options();
    names.insert(names.end(), options.asked().begin(), options.asked().end());
    out.push_back(fmt::format("no plugin reads the option {}{}", name, did_you_mean(name, names)));
  }
}

// Members of attributes.system.
void add_members(std::vector<std::string>& out, const Json& document) {
  static const Json::json_pointer kPlace("/attributes/system");
  const Json& system = find_at(document, kPlace);
  if (!system.is_object()) return;
  const std::vector<std::string> names(std::begin(kSystem), std::end(kSystem));
  for (const auto& [name, unused] : system.items()) {
    if (is_in(kSystem, name) || is_in(kManagers, name)) continue;
    std::string meant = did_you_mean(name, names);
    if (!meant.empty()) out.push_back(fmt::format("jobspec: attributes.system.{} is not read{}", name, meant));
  }
}

}  // namespace

std::vector<std::string> unread_options(const job::Options& options, const job::Jobspec& spec) {
  std::vector<std::string> out;
  add_options(out, options);
  add_members(out, spec.document);
  return out;
}

Result<void> report_unread_options(const job::Options& options, const job::Jobspec& spec, Log& log) {
  bool is_strict = TRY(options.flag("strict"));
  for (const std::string& each : unread_options(options, spec)) {
    if (is_strict) return invalid(each + " (an error by -o strict)");
    log.log(Level::warn, "", "{}", each);
  }
  return {};
}

}  // namespace nacre::core
