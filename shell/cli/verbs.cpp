// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.hpp"

#include <algorithm>
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

// A verb that runs a command leaves that over, and looks itself for what is unknown.
std::vector<std::string> unknown_words(const CLI::App& app) {
  std::vector<std::string> out = app.remaining();
  for (const CLI::App* sub : app.get_subcommands()) {
    if (sub->get_prefix_command()) continue;
    std::vector<std::string> more = unknown_words(*sub);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

Reply reply_to(const CLI::ParseError& error, const CLI::App& app) {
  if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) return {0, app.help()};
  if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) return {0, fmt::format("nacre {}\n", kVersion)};
  // Of something missing and something unknown the latter is the reason.
  std::vector<std::string> unknown = unknown_words(app);
  if (!unknown.empty())
    return usage_error(program_of(app), fmt::format("{} is not known here", in_quotes(unknown[0])));
  return usage_error(program_of(app), error.what());
}

int run_verb(CLI::App& app, const std::vector<VerbPtr>& verbs) {
  for (const VerbPtr& verb : verbs) {
    if (!verb->chosen()) continue;
    Result<int> code = verb->run();
    if (code) return *code;
    print_err("{}: {}\n", program_of(app), code.error().message);
  }
  return 1;
}

int parse_and_run(CLI::App& app, int argc, char** argv, const std::vector<VerbPtr>& verbs) {
  for (const VerbPtr& verb : verbs) verb->add_to(app);
  std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  auto is_prefix_verb = [&words](const CLI::App* verb) {
    return !words.empty() && verb->get_prefix_command() && verb->get_name() == words[0];
  };
  if (!app.get_subcommands(is_prefix_verb).empty())
    std::replace(words.begin(), words.end(), std::string("--"), std::string(kEndOfOptions));
  std::reverse(words.begin(), words.end());  // as CLI11 has them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return print(reply_to(error, app));
  }
  return run_verb(app, verbs);
}

}  // namespace

int run_nacre(int argc, char** argv, const std::vector<VerbPtr>& verbs) {
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
