// SPDX-License-Identifier: Apache-2.0
#include "plugins/pty/options.hpp"

#include <string>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::plugins {
namespace {

Result<value::Idset> read_ranks(const JsonAt& option, std::uint64_t tasks) {
  constexpr const char* kWanted = R"(an idset of task ranks, a rank, or "all")";
  const Json& json = option.json();
  // The brackets of an idset look like an array to the command line.
  std::string text = json.is_string() ? json.get<std::string>() : dump_json(json);
  if (text == "all") return value::Idset::range(0, static_cast<value::Idset::Id>(tasks - 1));
  bool number = json.is_number_unsigned() || json.is_array();
  auto set = number || json.is_string() ? value::Idset::parse(text) : Result<value::Idset>(value::Idset());
  if (!set || set->empty()) return option.expected(kWanted);
  if (*set->last() >= tasks) return option.error(fmt::format("the job has no task {}", *set->last()));
  return set;
}

}  // namespace

Result<PtyOptions> PtyOptions::read(const job::Options& options, std::uint64_t tasks) {
  PtyOptions out;
  auto option = options.at("pty");
  if (!option) return out;
  auto all = value::Idset::range(0, static_cast<value::Idset::Id>(tasks - 1));
  if (!option->json().is_object()) {
    Result<bool> on = options.flag("pty");
    if (!on) return option->expected(R"(on or off, or {"ranks": IDSET, "capture": BOOL, "interactive": BOOL})");
    if (*on) out.ranks = all;
    out.captures = *on;
    return out;
  }
  CHECK_OK(option->only_keys({"ranks", "capture", "interactive"}));
  out.interactive = TRY(options.flag("pty.interactive"));
  out.captures = options.find("pty.capture") == nullptr ? !out.interactive : TRY(options.flag("pty.capture"));
  if (auto ranks = options.at("pty.ranks")) {
    out.ranks = TRY(read_ranks(*ranks, tasks));
  } else if (!out.interactive) {
    out.ranks = all;
  }
  if (out.interactive) out.ranks.insert(0);
  return out;
}

}  // namespace nacre::plugins
