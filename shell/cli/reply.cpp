// SPDX-License-Identifier: Apache-2.0
#include "cli/reply.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/nearest.hpp"
#include "base/print.hpp"
#include "base/text.hpp"

namespace nacre::cli {
namespace {

// The long options of a verb, with their dashes; a group of options is a verb without a name.
void add_options_of(const CLI::App& app, std::vector<std::string>& to) {
  for (const CLI::Option* each : app.get_options()) {
    for (const std::string& name : each->get_lnames()) to.push_back("--" + name);
  }
  for (const CLI::App* group : app.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); }))
    add_options_of(*group, to);
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!each->get_name().empty()) out.push_back(each->get_name());
  return out;
}

// Options are not shortened; who does that is told the whole name.
std::string meant_option(const CLI::App& app, const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  add_options_of(app, known);
  auto begins = [&name](const std::string& each) { return each.starts_with(name); };
  auto first = std::find_if(known.begin(), known.end(), begins);
  if (name.size() > 3 && first != known.end() && std::count_if(first, known.end(), begins) == 1)
    return "; did you mean " + *first + "?";
  return did_you_mean(name, known);
}

}  // namespace

Reply usage_error(const std::string& program, const std::string& message) {
  return {2, fmt::format("{}: {}\nTry '{} --help'.\n", program, message, program)};
}

std::string unknown_word(const CLI::App& app, const std::string& word) {
  // What CLI11 leaves of -l=3, where -l is a flag.
  if (word.starts_with("-="))
    return fmt::format("{} stands behind a short option that takes no value", in_quotes(word.substr(1)));
  std::string meant = word.starts_with("--") ? meant_option(app, word) : did_you_mean(word, verbs_of(app));
  return fmt::format("{} is not known here{}", in_quotes(word), meant);
}

int print(const Reply& reply) {
  if (reply.exit_code == 0)
    print_out(reply.text);
  else
    print_err(reply.text);
  return reply.exit_code;
}

}  // namespace nacre::cli
