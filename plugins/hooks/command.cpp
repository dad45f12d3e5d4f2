// SPDX-License-Identifier: Apache-2.0
#include "plugins/hooks/command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "job/environment.hpp"
#include "job/option_types.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kShell = "/bin/sh";

Result<void> read_command(const JsonAt& option, std::string_view name, const std::vector<std::string>& command,
                          HookCommand& out) {
  if (option.json().is_array()) {
    out.argv = TRY(option.strings());
    if (out.argv.empty() || out.argv.front().empty()) return option.expected("a program and its arguments");
    out.name = fmt::format("{} {}", name, in_quotes(fmt::format("{}", fmt::join(out.argv, " "))));
    return {};
  }
  if (!option.json().is_string()) return option.expected("a command of /bin/sh, or an array of arguments");
  std::string text = TRY(option.string());
  if (trim(text).empty()) return option.expected("a command");
  out.name = fmt::format("{} {}", name, in_quotes(text));
  out.argv = {kShell, "-c", std::move(text), std::string(name)};
  out.argv.insert(out.argv.end(), command.begin(), command.end());
  return {};
}

// What follows `word` and a blank; none if `line` does not begin so.
std::optional<std::string_view> after(std::string_view line, std::string_view word) {
  if (!line.starts_with(word)) return std::nullopt;
  line.remove_prefix(word.size());
  if (line.empty() || (line.front() != ' ' && line.front() != '\t')) return std::nullopt;
  return line.substr(1);
}

std::string_view without_blanks_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

}  // namespace

Result<std::optional<HookCommand>> HookCommand::read(const job::Options& options, std::string_view option,
                                                     const std::vector<std::string>& command) {
  auto value = options.at(option);
  if (!value || value->json().is_null()) return std::nullopt;
  HookCommand out;
  if (!value->json().is_object()) {
    CHECK_OK(read_command(*value, option, command, out));
    return out;
  }
  CHECK_OK(value->only_keys({"command", "timeout"}));
  CHECK_OK(read_command(TRY(value->at("command")), option, command, out));
  if (auto timeout = TRY(value->find("timeout")); timeout && timeout->json() != "none") {
    out.timeout = TRY(job::seconds_option(*timeout));
  }
  return out;
}

Result<PrologLine> PrologLine::parse(std::string_view line) {
  if (line.size() > kMaxSize) return invalid(fmt::format("a line of more than {} bytes", kMaxSize));
  PrologLine out;
  if (auto text = after(line, "print")) {
    out.kind = Kind::print;
    out.text = *text;
  } else if (auto setting = after(line, "export")) {
    std::size_t equals = setting->find('=');
    if (equals == std::string_view::npos)
      return invalid(fmt::format("{}: expected export NAME=VALUE", in_quotes(line)));
    out.kind = Kind::set;
    out.name = without_blanks_before(setting->substr(0, equals));
    out.text = setting->substr(equals + 1);
    CHECK_OK(in(in_quotes(line), job::Environment::check(out.name, out.text)));
  } else if (auto name = after(line, "unset")) {
    out.kind = Kind::unset;
    out.name = trim(*name);
    CHECK_OK(in(in_quotes(line), job::Environment::check(out.name, "")));
  }
  return out;
}

}  // namespace nacre::plugins
