// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/print.hpp"
#include "base/text.hpp"
#include "cli/reply.hpp"
#include "version.hpp"

namespace nacre::cli {
namespace {

// "nacre archive create": the program and the subcommands that were given, as far as they are known.
std::string program_of(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* sub : app.get_subcommands()) name += ' ' + program_of(*sub);
  return name;
}

// The words that no option and no verb has taken. A verb that runs a command leaves the command's words, and checks
// them itself.
std::vector<std::string> unknown_words(const CLI::App& app) {
  std::vector<std::string> out = app.remaining();
  for (const CLI::App* sub : app.get_subcommands()) {
    if (sub->get_prefix_command()) continue;
    std::vector<std::string> more = unknown_words(*sub);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

// `nacre help VERB...` is `nacre VERB... --help`.
void replace_help(std::vector<std::string>& words) {
  if (words.empty() || words[0] != "help") return;
  words.erase(words.begin());
  words.emplace_back("--help");
}

// The verb of a verb that was given, as far as it is known.
const CLI::App& last_verb(const CLI::App& app) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands()[0];
  return *verb;
}

// "0.001000" as "0.001", "16" as it is.
std::string_view without_zeros(std::string_view number) {
  if (number.find('.') == std::string_view::npos) return number;
  number = number.substr(0, number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.remove_suffix(1);
  return number;
}

// Of "--ntasks: Value 0 not in range 1 to 16777216" what is expected, and what is there instead.
std::optional<std::string> range_text(std::string_view text) {
  constexpr std::string_view kValue = ": Value ";
  constexpr std::string_view kRange = " not in range ";
  constexpr std::string_view kTo = " to ";
  std::size_t value = text.find(kValue);
  std::size_t range = text.rfind(kRange);
  std::size_t to = text.rfind(kTo);
  if (value == text.npos || range == text.npos || to == text.npos || value > range || range > to)
    return std::nullopt;
  std::string_view option = text.substr(0, value);
  std::string_view given = text.substr(value + kValue.size(), range - value - kValue.size());
  std::string_view least = text.substr(range + kRange.size(), to - range - kRange.size());
  std::string_view most = text.substr(to + kTo.size());
  return fmt::format("{}: expected a number from {} to {}, got {}", option, without_zeros(least),
                     without_zeros(most), in_quotes(given));
}

// What CLI11 says, in words that tell what to do.
std::string text_of(const CLI::ParseError& error, const CLI::App& app) {
  std::string text = error.what();
  if (text == "A subcommand is required") {
    const CLI::App& verb = last_verb(app);
    if (&verb == &app) return "expected a verb, as in: nacre run -n 4 hostname";
    std::vector<std::string> names;
    for (const CLI::App* each : verb.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(each->get_name());
    return fmt::format("expected {}", fmt::join(names, " or "));
  }
  // "--ntasks: 1 required UINT:UINT in [1 - 16777216] missing"
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing"))
    return text.substr(0, text.find(':')) + ": expected a value";
  // "Could not convert: --count = x"
  constexpr std::string_view kNoNumber = "Could not convert: ";
  if (std::size_t equals = text.find(" = "); text.starts_with(kNoNumber) && equals != std::string::npos) {
    return fmt::format("{}: expected a number, got {}", text.substr(kNoNumber.size(), equals - kNoNumber.size()),
                       in_quotes(text.substr(equals + 3)));
  }
  if (auto range = range_text(text)) return *std::move(range);
  // "Requires at most 1 options be given from [--hosts,--hostfile]"
  std::size_t list = text.find('[');
  if (text.starts_with("Requires at most 1 options") && text.ends_with(']') && list < text.size())
    return "give only one of " + text.substr(list + 1, text.size() - list - 2);
  return text;
}

Reply reply_to(const CLI::ParseError& error, const CLI::App& app) {
  bool names_verb = app.remaining().empty() || !app.get_subcommands().empty();
  if (names_verb && dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) return {0, app.help()};
  if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) return {0, fmt::format("nacre {}\n", kVersion)};
  // If a word is unknown and another one is missing, the unknown one is the reason.
  std::vector<std::string> unknown = unknown_words(app);
  if (!unknown.empty()) return usage_error(program_of(app), unknown_word(last_verb(app), unknown[0]));
  return usage_error(program_of(app), text_of(error, app));
}

// Finds options such as "--hosts=", of which CLI11 takes the next word as the value. `words`: in the order of the
// command line; those that are left over are not checked.
std::optional<Reply> value_missing(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App& verb = last_verb(app);
  std::size_t over = std::min(words.size(), verb.remaining_size());
  for (const std::string& word : std::span(words).first(words.size() - over)) {
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    if (verb.get_option_no_throw(word.substr(0, word.size() - 1)) != nullptr)
      return usage_error(program_of(app), word + ": expected a value behind =");
  }
  return std::nullopt;
}

// The verbs of the app, by its subcommands.
using Verbs = std::map<const CLI::App*, VerbPtr>;

Verbs add_verbs(CLI::App& app, std::span<const NamedVerb> verbs, const std::vector<std::string>& words) {
  auto is_first = [&words](const NamedVerb& verb) { return !words.empty() && words[0] == verb.name; };
  auto named = std::find_if(verbs.begin(), verbs.end(), is_first);
  if (named != verbs.end()) verbs = {named, 1};
  Verbs out;
  for (const auto& [name, text, make] : verbs) {
    CLI::App* verb = app.add_subcommand(name, text);
    (out[verb] = make())->add_to(*verb);
  }
  return out;
}

int run_verb(CLI::App& app, const Verbs& verbs) {
  Result<int> code = verbs.at(app.get_subcommands().at(0))->run();
  if (code) return *code;
  print_err("{}: {}\n", program_of(app), code.error().message);
  return 1;
}

int parse_and_run(CLI::App& app, int argc, char** argv, std::span<const NamedVerb> named) {
  std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  replace_help(words);
  const Verbs verbs = add_verbs(app, named, words);
  auto is_prefix_verb = [&words](const CLI::App* verb) {
    return !words.empty() && verb->get_prefix_command() && verb->get_name() == words[0];
  };
  if (!app.get_subcommands(is_prefix_verb).empty())
    std::replace(words.begin(), words.end(), std::string("--"), std::string(kEndOfOptions));
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 takes them in reverse order
  std::optional<Reply> reply;
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    reply = reply_to(error, app);
  }
  if (auto missing = value_missing(app, words)) reply = std::move(missing);
  return reply ? print(*reply) : run_verb(app, verbs);
}

}  // namespace

int run_nacre(int argc, char** argv, std::span<const NamedVerb> verbs) {
  CLI::App app("Tools for jobs of nacre-shell.", "nacre");
  app.set_version_flag("-V,--version", kVersion, "Print the version");
  app.require_subcommand(1);
  int code = parse_and_run(app, argc, argv, verbs);
  if (Result<void> flushed = flush_out(); !flushed) {
    print_err("{}: {}\n", program_of(app), flushed.error().message);
    code = std::max(code, 1);
  }
  return code;
}

}  // namespace nacre::cli
