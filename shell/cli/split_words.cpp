// SPDX-License-Identifier: Apache-2.0
#include "cli/split_words.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

namespace nacre::cli {
namespace {

// CLI11 gives a meaning to an empty value, to "{}", "[...]" and "--"; with this before them it gives them none.
// Only a "[[...]]" right behind a short option's letter is left to it.
constexpr char kMark = '\x1f';
constexpr const char* kEnd = "\x1f.";  // behind all words: an option that has it as its value has none

std::string marked(const std::string& word) {
  std::string out = word;
  if (std::size_t equals = word.find('='); word.starts_with("--") && equals != std::string::npos)
    out.insert(equals + 1, 1, kMark);
  else if (word == "--" || word.starts_with('[') || word.starts_with(kMark))
    out.insert(0, 1, kMark);
  return out;
}

std::string without_mark(std::string word) {
  std::size_t at = word.starts_with("--") ? word.find('=') + 1 : 0;
  if (at < word.size() && word[at] == kMark) word.erase(at, 1);
  return word;
}

// Whether an option may be among the words: to tell CLI11 of all would take time.
bool is_among(const SplitOption& option, const std::vector<std::string>& words) {
  auto is_in = [&option](const std::string& word) {
    return std::any_of(option.names->begin(), option.names->end(), [&word](const std::string& name) {
      bool is_long = name.starts_with("--");
      return is_long ? std::string_view(word).substr(0, word.find('=')) == name
                     : word.starts_with('-') && word.find(name[1]) != std::string::npos;
    });
  };
  return std::any_of(words.begin(), words.end(), is_in);
}

}  // namespace

SplitWords split_words(std::span<const SplitOption> options, const std::vector<std::string>& words) {
  CLI::App app("", "");
  app.set_help_flag();
  app.prefix_command();
  const CLI::callback_t ignore = [](const CLI::results_t&) { return true; };
  std::map<const CLI::Option*, std::size_t> known;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (!is_among(options[i], words)) continue;
    std::string names;
    for (const std::string& each : *options[i].names) names += (names.empty() ? "" : ",") + each;
    CLI::Option* added = app.add_option(names, ignore);
    added->expected(options[i].has_value ? 1 : 0)->allow_extra_args(false);
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    known[added] = i;
  }
  std::vector<std::string> reversed{kEnd};  // CLI11 takes them in reverse order
  std::transform(words.rbegin(), words.rend(), std::back_inserter(reversed), marked);
  app.parse(reversed);
  SplitWords out;
  std::map<const CLI::Option*, std::size_t> taken;
  for (const CLI::Option* each : app.parse_order()) {
    GivenWord given{known.at(each), each->results().at(taken[each]++)};
    if (*given.value == kEnd) {
      out.no_value = given.option;
      break;
    }
    bool is_marked = given.value->starts_with(kMark);
    bool has_value = options[given.option].has_value;
    if (!has_value && !is_marked)
      given.value.reset();
    else
      given.value = without_mark(*std::move(given.value));
    given.by_equals = is_marked;
    out.given.push_back(std::move(given));
  }
  out.rest = app.remaining();
  if (!out.rest.empty() && out.rest.back() == kEnd) out.rest.pop_back();
  for (std::string& each : out.rest) each = without_mark(std::move(each));
  return out;
}

}  // namespace nacre::cli
