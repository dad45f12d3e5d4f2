// SPDX-License-Identifier: Apache-2.0
#include "cli/option_list.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "job/option_table.hpp"

namespace nacre::cli {
namespace {

using job::OptionEntry;

bool is_switch(const OptionEntry& option) { return std::string_view(option.type) == "switch"; }

// The text that completion inserts: "NAME=" if a value has to follow, "NAME" for a switch, and "rlimit." for
// "rlimit.<NAME>".
std::string word_of(const OptionEntry& option) {
  std::string name = option.name;
  if (std::size_t any = name.find('<'); any != std::string::npos) return name.substr(0, any);
  return is_switch(option) ? name : name + '=';
}

// `text` in single quotes, as sh(1) reads it.
std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (char each : text) {
    if (each == '\'') {
      out += "'\\''";
    } else {
      out += each;
    }
  }
  return out + "'";
}

std::string as_json() {
  Json options = Json::array();
  for (const OptionEntry& each : job::option_table()) {
    Json option{{"name", each.name}, {"type", each.type}, {"owner", each.owner}, {"help", each.help}};
    option["default"] = *each.default_value != '\0' ? Json(each.default_value) : Json();
    Json values = Json::array();
    for (std::string_view value : split(each.values, ' ')) {
      if (!value.empty()) values.push_back(value);
    }
    option["values"] = std::move(values);
    options.push_back(std::move(option));
  }
  return dump_json({{"version", 1}, {"options", std::move(options)}}) + '\n';
}

bool takes_any_name(const OptionEntry& option) {
  return std::string_view(option.name).find('<') != std::string_view::npos;
}

// The texts for completion, each once: all options like "rlimit.<NAME>" have one.
std::vector<std::pair<std::string, std::string>> words() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionEntry& each : job::option_table()) {
    std::string word = word_of(each);
    if (out.empty() || out.back().first != word) out.emplace_back(std::move(word), each.help);
  }
  return out;
}

bool has_values(const OptionEntry& option) { return *option.values != '\0' && !takes_any_name(option); }

std::string bash_part() {
  std::string out = "_nacre_shell_options=(\n";
  for (const auto& [word, help] : words()) out += fmt::format("  {}\n", word);
  out += ")\n\n_nacre_shell_values() { # NAME: the values that the shell option NAME takes\n  case $1 in\n";
  for (const OptionEntry& each : job::option_table()) {
    if (has_values(each)) out += fmt::format("    {}) echo {} ;;\n", each.name, in_single_quotes(each.values));
  }
  return out + "  esac\n}\n\n";
}

// The format of zsh's _describe: WORD:HELP, with the colons of WORD quoted.
std::string zsh_part() {
  std::string out = "#compdef nacre-shell\n\nlocal -a _nacre_shell_options\n_nacre_shell_options=(\n";
  for (const auto& [word, help] : words())
    out += fmt::format("  {}\n", in_single_quotes(fmt::format("{}:{}", word, help)));
  out += ")\n\nlocal -A _nacre_shell_values\n_nacre_shell_values=(\n";
  for (const OptionEntry& each : job::option_table()) {
    if (has_values(each)) out += fmt::format("  {} {}\n", each.name, in_single_quotes(each.values));
  }
  return out + ")\n\n";
}

std::string fish_part() {
  std::string out = "function __nacre_shell_options\n";
  for (const auto& [word, help] : words())
    out += fmt::format("    printf '%s\\t%s\\n' {} {}\n", in_single_quotes(word), in_single_quotes(help));
  for (const OptionEntry& each : job::option_table()) {
    if (is_switch(each) || !has_values(each)) continue;
    for (std::string_view value : split(each.values, ' '))
      out += fmt::format("    echo {}\n", in_single_quotes(fmt::format("{}={}", each.name, value)));
  }
  return out + "end\n\n";
}

}  // namespace

std::optional<std::string> list_options(std::string_view format) {
  if (format == "json") return as_json();
  if (format == "bash") return bash_part();
  if (format == "zsh") return zsh_part();
  if (format == "fish") return fish_part();
  return std::nullopt;
}

}  // namespace nacre::cli
