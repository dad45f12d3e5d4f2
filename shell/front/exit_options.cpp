// SPDX-License-Identifier: Apache-2.0
#include "front/exit_options.hpp"

#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "job/options.hpp"

namespace nacre::front {
namespace {

constexpr std::string_view kSetopt = "exit-policy=";

struct Choice {
  std::string word;  // as it was given
  std::string policy;
};

}  // namespace

void ExitOptions::add_to(CLI::App& verb, const std::vector<std::string>& setopt) {
  auto* group = verb.add_option_group("Exit code", "See nacre-exits(7)");
  group->add_option("--exit-policy", policy_, "How the job's exit code follows from its tasks' (default: max)")
      ->option_text("max|main|all|main+all|first")
      ->check(CLI::IsMember({"max", "main", "all", "main+all", "first"}));
  group->add_option("--exit-main", main_, "The main rank (default: 0)")
      ->option_text("RANK")
      ->check(CLI::Range(std::uint32_t{0}, UINT32_MAX - 1));
  group->add_option("--exit-ok", ok_, "Exit codes of tasks that count as success, beside 0: 77 or 64-78,99")
      ->option_text("CODES");
  group->add_option("--report", report_, "Write how the job has ended to FILE of this host, as JSON")
      ->option_text("FILE");
  group->add_flag("--require-all-success", all_, "Is --exit-policy=all");
  group->add_flag("--check-all-nodes", all_nodes_, "Is --exit-policy=main+all");
  group->add_flag("-S,--any-failure", any_, "Is --exit-policy=max");
  group
      ->add_flag("-K,--fail-fast", fail_fast_,
                 "Tasks that fail end the job: the first one, N, or P% of all; see exit-on-error")
      ->option_text("[=N|P%|first]");
  verb.parse_complete_callback([this, &setopt] { check(setopt); });
}

void ExitOptions::check(const std::vector<std::string>& setopt) {
  std::vector<Choice> choices;
  if (!policy_.empty()) choices.push_back({"--exit-policy=" + policy_, policy_});
  if (all_) choices.push_back({"--require-all-success", "all"});
  if (all_nodes_) choices.push_back({"--check-all-nodes", "main+all"});
  if (any_) choices.push_back({"--any-failure", "max"});
  for (const std::string& each : setopt) {
    if (each.starts_with(kSetopt)) choices.push_back({"-o " + each, each.substr(kSetopt.size())});
  }
  for (const Choice& each : choices) {
    if (each.policy == choices[0].policy) continue;
    throw CLI::ValidationError(
        fmt::format("{} and {} contradict each other: give one of them", choices[0].word, each.word));
  }
  if (!choices.empty()) policy_ = choices[0].policy;
}

std::vector<std::string> ExitOptions::shell_options() const {
  std::vector<std::string> out;
  if (!policy_.empty()) out.push_back("exit-policy=" + policy_);
  if (main_) out.push_back(fmt::format("exit-main={}", *main_));
  if (!ok_.empty()) out.push_back("exit-ok=" + ok_);
  if (!fail_fast_.empty()) out.push_back("exit-on-error=" + fail_fast_);
  return out;
}

std::vector<std::string> ExitOptions::defaults(const job::Options& options) {
  if (options.find("exit-timeout.after") != nullptr) return {};
  return {"exit-timeout.after=failure"};
}

}  // namespace nacre::front
