// SPDX-License-Identifier: Apache-2.0
#include <climits>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "cli/raw_arguments.hpp"

namespace nacre::cli {
namespace {

// An option with a value, which is given once.
struct UsualOption {
  std::string_view name;
  std::string_view letter;  // "": it has none
  bool (*take)(RawArguments& to, std::string&& value);
};

bool take_way(RawArguments& to, std::string&& value) {
  to.way = std::move(value);
  to.has_way = true;
  return true;
}

bool take_jobspec(RawArguments& to, std::string&& value) {
  to.values.boot.jobspec_path = std::move(value);
  to.has_jobspec = true;
  return true;
}

bool take_resources(RawArguments& to, std::string&& value) {
  to.values.boot.resources_path = std::move(value);
  to.has_resources = true;
  return true;
}

bool take_initrc(RawArguments& to, std::string&& value) {
  to.values.initrc = std::move(value);
  return true;
}

bool take_launch_record(RawArguments& to, std::string&& value) {
  auto number = parse_u64(value);
  if (!number || *number < 3 || *number > INT_MAX) return false;
  to.values.launch_record = static_cast<int>(*number);
  return true;
}

bool take_setopt(RawArguments& to, std::string&& value) {
  to.values.options.push_back(std::move(value));
  return true;
}

constexpr UsualOption kUsual[] = {
    {"--boot", "", take_way},        {"--jobspec", "-j", take_jobspec},
    {"--initrc", "", take_initrc},   {"--resources", "-R", take_resources},
    {"--setopt", "-o", take_setopt}, {"--launch-record", "", take_launch_record},
};

// The option that `word` is, or begins with before "=".
const UsualOption* find_usual(std::string_view word) {
  std::string_view name = word.substr(0, word.find('='));
  for (const UsualOption& each : kUsual) {
    if (name == each.name || (!each.letter.empty() && word == each.letter)) return &each;
  }
  return nullptr;
}

}  // namespace

bool read_usual(std::span<char* const> words, RawArguments& to) {
  RawArguments out;
  unsigned given = 0;  // a bit for each of kUsual
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word == "-s" || word == "--standalone") {
      if (std::exchange(out.values.standalone, true)) return false;
      continue;
    }
    const UsualOption* option = find_usual(word);
    if (option == nullptr) return false;
    unsigned bit = 1U << (option - kUsual);
    bool again = (given & bit) != 0 && option->take != take_setopt;
    given |= bit;
    std::size_t equals = word.find('=');
    if (equals == std::string_view::npos && ++i == words.size()) return false;
    std::string value(equals == std::string_view::npos ? std::string_view(words[i]) : word.substr(equals + 1));
    if (again || value.empty() || !option->take(out, std::move(value))) return false;
  }
  to = std::move(out);
  return true;
}

}  // namespace nacre::cli
