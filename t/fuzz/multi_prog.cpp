// SPDX-License-Identifier: Apache-2.0
//
// The first byte says what the rest is: a file of programs, a line of words, or rules for the environment. Whatever
// is read is sound, and can be written down and read again; errors say the line.
#include "front/job_request.hpp"

#include "base/json.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using namespace nacre::front;  // NOLINT

namespace {

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void read_programs(std::string_view text) {
  auto parsed = MultiProg::parse(text);
  if (!parsed) {
    const std::string& why = parsed.error().message;
    return require(why.starts_with("line ") || why.starts_with("no program"), why);
  }
  nacre::value::Idset named;
  std::string again;
  for (const Program& each : parsed->programs) {
    require(!each.command.empty() && !each.command[0].empty(), "a program");
    if (each.ranks) require((named & *each.ranks).empty(), "each rank once");
    if (each.ranks) named = named | *each.ranks;
    again += each.ranks ? each.ranks->str() : "*";
    for (const std::string& word : each.command) {
      if (word.find('\n') != std::string::npos) return;
      again += ' ' + quoted(word);
    }
    again += '\n';
  }
  auto second = MultiProg::parse(again);
  require(second && second->programs == parsed->programs, "the same programs again: " + again);
  static_cast<void>(parsed->check(parsed->least_tasks().value_or(1)));
  require(parsed->option().size() == parsed->programs.size(), "an entry for each");
}

void read_words(std::string_view text) {
  auto words = words_of(text);
  if (!words) return require(words.error().message.starts_with("the quote "), words.error().message);
  std::string again;
  for (const std::string& each : *words) again += quoted(each) + ' ';
  auto second = words_of(again);
  require(second && *second == *words, "the same words again: " + again);
}

// Only as text: a rule may name a file of this host.
void read_rules(std::string_view text) {
  EnvironmentRules rules({{"A", "1"}, {"AB", "2 3"}, {"PMI_RANK", "0"}});
  auto applied = rules.apply_text(text, "rules");
  if (!applied) require(applied.error().message.starts_with("rules: line "), applied.error().message);
  for (const auto& [name, value] : rules.job()) {
    require(!name.empty() && name.find_first_of(std::string_view("=\0", 2)) == std::string::npos,
            "a name: " + name);
    require(value.find('\0') == std::string::npos, "a value of " + name);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: read_programs(text); break;
    case 1: read_words(text); break;
    default: read_rules(text);
  }
  return 0;
}
