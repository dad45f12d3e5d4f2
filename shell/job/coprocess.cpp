// SPDX-License-Identifier: Apache-2.0
#include "job/coprocess.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::job {
namespace {

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

Result<std::vector<std::string>> read_command(const JsonAt& command) {
  std::vector<std::string> out;
  if (command.json().is_string()) {
    std::string text = TRY(command.string());
    if (!trim(text).empty()) out = {"/bin/sh", "-c", text};
  } else if (command.json().is_array()) {
    out = TRY(command.strings());
  }
  bool good = !out.empty() && !out.front().empty();
  if (!good)
    return command.expected("a program and its arguments, as an array of strings or as text for the shell");
  for (const std::string& each : out) {
    if (each.find('\0') != std::string::npos) return command.error("contains a NUL byte");
  }
  return out;
}

Result<std::optional<value::Idset>> read_ranks(const JsonAt& ranks) {
  if (ranks.json() == "all") return std::optional<value::Idset>();
  value::Idset set;
  if (ranks.json().is_string()) {
    set = TRY(in(ranks.path(), value::Idset::parse(TRY(ranks.string()))));
  } else if (ranks.json().is_number_integer()) {
    set.insert(static_cast<value::Idset::Id>(TRY(ranks.integer(0, value::Idset::kMaxId))));
  }
  if (set.empty()) return ranks.expected("an idset of shell ranks such as \"0-3\", or \"all\"");
  return std::optional(std::move(set));
}

}  // namespace

Result<void> Coprocess::check_name(std::string_view name) {
  if (!name.empty() && name.find_first_not_of(kNameCharacters) == std::string_view::npos) return {};
  return invalid(fmt::format("expected a name of letters, digits, '-' and '_', got {}", in_quotes(name)));
}

Result<Coprocess> Coprocess::read(std::string name, const JsonAt& entry) {
  CHECK_OK(entry.only_keys({"command", "output", "ranks"}));
  Coprocess out;
  out.command = TRY(read_command(TRY(entry.at("command"))));
  if (auto output = TRY(entry.find("output"))) {
    out.output = TRY(output->string());
    if (out.output.empty()) return output->error("is empty; expected the name of a file");
    if (out.output.find('\0') != std::string::npos) return output->error("contains a NUL byte");
  } else {
    out.output = fmt::format("coproc-{}-{{{{id}}}}.log", name);
  }
  if (auto ranks = TRY(entry.find("ranks"))) out.ranks = TRY(read_ranks(*ranks));
  out.name = std::move(name);
  return out;
}

Result<std::vector<Coprocess>> read_coprocesses(const JsonAt& option) {
  if (!option.json().is_object() || option.json().empty()) {
    return option.expected("an object of coprocesses by name that is not empty");
  }
  std::vector<Coprocess> out;
  for (const auto& [name, entry] : TRY(option.members())) {
    CHECK_OK(in(option.path(), Coprocess::check_name(name)));
    out.push_back(TRY(Coprocess::read(name, entry)));
  }
  return out;
}

}  // namespace nacre::job
