// SPDX-License-Identifier: Apache-2.0
#include "front/exit_options.hpp"

#include <string_view>

#include <fmt/format.h>

#include "base/json.hpp"
#include "cli/command_line.hpp"
#include "front/given_options.hpp"
#include "job/option_types.hpp"
#include "job/options.hpp"
#include "job/restart_option.hpp"

namespace nacre::front {
namespace {

struct Choice {
  std::string word;  // as it was given
  std::string policy;
};

}  // namespace

void ExitOptions::add_to(cli::CommandLine& verb) {
  verb.begin_group("Exit code", "see nacre-exits(7)");
  verb.add_option("--exit-policy", policy_, "How the job's exit code follows from its tasks' (default: max)")
      ->option_text("max|main|all|main+all|first")
      ->check(cli::one_of({"max", "main", "all", "main+all", "first"}));
  verb.add_number("--exit-main", main_, "The main rank (default: 0)", {0, UINT32_MAX - 1})->option_text("RANK");
  verb.add_option("--exit-ok", ok_, "Exit codes of tasks that count as success, beside 0: 77 or 64-78,99")
      ->option_text("CODES");
  verb.add_option("--report", report_, "Write how the job has ended to FILE of this host, as JSON")
      ->option_text("FILE");
  verb.add_flag("--require-all-success", all_, "Is --exit-policy=all");
  verb.add_flag("--check-all-nodes", all_nodes_, "Is --exit-policy=main+all");
  verb.add_flag("-S,--any-failure", any_, "Is --exit-policy=max");
  verb.add_flag("-K,--fail-fast", fail_fast_,
                "Tasks that fail end the job: the first one, N, or P% of all; see exit-on-error", kWithoutValue)
      ->option_text("[=N|P%|first]");
  verb.add_option("--restart", restart_, "Start tasks again that end, up to 3 times in all: see restart")
      ->option_text(
          "never|on-failure|always[,max=N][,per-task=N][,backoff=TIME[:TIME]][,codes=SET][,scope=...][,where=...]");
  verb.add_option(
          "--hang-watch", hang_watch_,
          "Print who hangs if no task does anything for this long, and perhaps end the job: nacre-doctor(1)")
      ->option_text("DURATION[,kill]");
  verb.begin_group("");
}

Result<void> ExitOptions::check(const std::vector<std::string>& setopt) {
  CHECK_OK(choose_policy());
  CHECK_OK(check_values());
  std::vector<GivenOption> all;
  for (const auto& [word, option] : given()) {
    job::Options set;
    std::string name = option.substr(0, option.find('='));
    if (set.set_from_argument(option)) all.push_back({word, name, set.value_at(name)->json()});
  }
  return refuse_contradictions(all, setopt);
}

Result<void> ExitOptions::choose_policy() {
  std::vector<Choice> choices;
  if (!policy_.empty()) choices.push_back({"--exit-policy=" + policy_, policy_});
  if (all_) choices.push_back({"--require-all-success", "all"});
  if (all_nodes_) choices.push_back({"--check-all-nodes", "main+all"});
  if (any_) choices.push_back({"--any-failure", "max"});
  if (choices.empty()) return {};
  for (const Choice& each : choices) {
    if (each.policy != choices[0].policy) return invalid(contradiction(choices[0].word, each.word));
  }
  policy_ = choices[0].policy;
  policy_word_ = choices[0].word;
  return {};
}

Result<void> ExitOptions::check_values() const {
  if (!ok_.empty()) CHECK_OK(job::exit_codes_option(JsonAt::root(Json(ok_), "--exit-ok")));
  auto restart =
      job::RestartOption::read(job::Options(restart_.empty() ? Json::object() : Json{{"restart", restart_}}));
  if (!restart) return invalid("--" + restart.error().message);
  if (!fail_fast_.empty()) CHECK_OK(job::failure_limit_option(JsonAt::root(Json(fail_fast_), "--fail-fast"), 1));
  return {};
}

std::vector<std::pair<std::string, std::string>> ExitOptions::given() const {
  std::vector<std::pair<std::string, std::string>> out;
  if (!policy_.empty()) out.emplace_back(policy_word_, "exit-policy=" + policy_);
  if (main_) out.emplace_back(fmt::format("--exit-main={}", *main_), fmt::format("exit-main={}", *main_));
  if (!ok_.empty()) out.emplace_back("--exit-ok=" + ok_, "exit-ok=" + ok_);
  if (!fail_fast_.empty()) out.emplace_back("--fail-fast=" + fail_fast_, "exit-on-error=" + fail_fast_);
  if (!restart_.empty()) out.emplace_back("--restart=" + restart_, "restart=" + restart_);
  if (!hang_watch_.empty()) out.emplace_back("--hang-watch=" + hang_watch_, "hang-watch=" + hang_watch_);
  return out;
}

std::vector<std::string> ExitOptions::shell_options() const {
  std::vector<std::string> out;
  for (const auto& [word, option] : given()) out.push_back(option);
  return out;
}

std::vector<std::string> ExitOptions::defaults(const job::Options& options) {
  if (options.find("exit-timeout.after") != nullptr) return {};
  return {"exit-timeout.after=failure"};
}

}  // namespace nacre::front
