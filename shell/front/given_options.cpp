// SPDX-License-Identifier: Apache-2.0
#include "front/given_options.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "job/option_types.hpp"
#include "job/options.hpp"

namespace nacre::front {
namespace {

constexpr std::uint64_t kManyTasks = 1U << 31;
constexpr const char* kCommandLine = "command line";

// "on" is 1, 25% are not 50%, 60 is "1m", and a switch is also turned on by an object.
bool is_same(const GivenOption& mine, const JsonAt& theirs) {
  if (mine.value == theirs.json()) return true;
  JsonAt own = JsonAt::root(mine.value, mine.name);
  if (mine.name == "exit-on-error") {
    auto limit = job::failure_limit_option(own, kManyTasks);
    auto other = job::failure_limit_option(theirs, kManyTasks);
    return limit && other && *limit == *other;
  }
  if (mine.name == "time-limit") {
    auto first = job::seconds_option(own);
    auto second = job::seconds_option(theirs);
    return first && second && first->seconds() == second->seconds();
  }
  if (!mine.value.is_boolean()) return false;
  auto on = theirs.json().is_object() ? Result<bool>(true) : job::switch_of(theirs);
  return on && *on == mine.value.get<bool>();
}

}  // namespace

std::string contradiction(std::string_view one, std::string_view other) {
  return fmt::format("{} and {} contradict each other: give one of them", one, other);
}

Result<void> refuse_contradictions(const std::vector<GivenOption>& given, const std::vector<std::string>& setopt) {
  for (const std::string& argument : setopt) {
    job::Options set;
    CHECK_OK(in("-o " + argument, set.set_from_argument(argument)));
    for (const GivenOption& each : given) {
      auto theirs = set.value_at(each.name);
      if (theirs && !is_same(each, *theirs)) return invalid(contradiction(each.word, "-o " + argument));
    }
  }
  return {};
}

std::map<std::string, std::string> sources_of(const std::vector<GivenOption>& given,
                                              const std::vector<std::string>& setopt) {
  std::map<std::string, std::string> out;
  for (const GivenOption& each : given) out[each.name] = kCommandLine;
  for (const std::string& each : setopt) out[each.substr(0, each.find('='))] = kCommandLine;
  return out;
}

}  // namespace nacre::front
