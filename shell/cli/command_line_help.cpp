// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "cli/command_line.hpp"

namespace nacre::cli {
namespace {

constexpr std::size_t kColumn = 30;  // where the texts begin

// "  NAME      TEXT", where the text has a line of its own if the name is long, and may have several.
std::string row(const std::string& name, std::string_view text) {
  std::string out = fmt::format("{:<{}}", "  " + name, kColumn);
  const std::string indent = '\n' + std::string(kColumn, ' ');
  if (name.size() + 2 >= kColumn) out += indent;
  for (char each : text) {
    if (each == '\n')
      out += indent;
    else
      out += each;
  }
  return out + '\n';
}

}  // namespace

std::string CommandLine::help_of(std::size_t group) const {
  std::string out;
  for (const auto& each : options_)
    if (!each->is_word() && each->group_ == group) out += row(each->shown(), each->help_);
  if (out.empty()) return out;
  const auto& [title, about] = groups_[group];
  const char* other = group == 0 && groups_.size() > 1 ? "Other options" : title.c_str();
  return fmt::format("\n{}:{}{}\n{}", other, about.empty() ? "" : " ", about, out);
}

std::string CommandLine::help() const {
  std::string words, usage;
  for (const auto& each : options_) {
    if (!each->is_word()) continue;
    std::string name = each->name() + (each->repeatable_ ? "..." : "");
    usage += each->required_ ? ' ' + name : fmt::format(" [{}]", name);
    words += row(each->shown(), each->help_);
  }
  if (*rest_text_ != '\0') usage += std::string(" ") + rest_text_;
  std::string out = fmt::format("{}\nUsage: {} [OPTIONS]{}{}\n", about_, program_, usage,
                                subcommands_.empty() ? "" : " SUBCOMMAND");
  if (!examples_.empty()) out += "\nExamples:\n";
  for (const auto& [command, about] : examples_) out += fmt::format("  {:<50}  {}\n", command, about);
  if (!words.empty()) out += "\nPositionals:\n" + words;
  for (std::size_t i = 1; i < groups_.size(); ++i) out += help_of(i);
  out += help_of(0);
  if (!subcommands_.empty()) out += "\nSubcommands:\n";
  for (const auto& each : subcommands_) out += row(each->verb_, each->about_);
  return out;
}

}  // namespace nacre::cli
