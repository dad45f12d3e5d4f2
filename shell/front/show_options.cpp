// SPDX-License-Identifier: Apache-2.0
#include "front/show_options.hpp"

#include "cli/command_line.hpp"

namespace nacre::front {
namespace {

constexpr const char* kEvents = "output.events";

}  // namespace

void ShowOptions::add_to(cli::CommandLine& verb, const char* explained) {
  verb.add_option("--format", format_, "json: output and events as lines of JSON, all to stdout (default: text)")
      ->option_text("text|json")
      ->check(cli::one_of({"text", "json"}));
  verb.add_flag("-q,--quiet", quiet_, "Print only warnings and errors beside the tasks' output")
      ->excludes({"--verbose"});
  verb.add_flag("--explain", explain_,
                "Print where tasks run, with env also their variables, with all the whole plan, and start none",
                explained)
      ->option_text("[=brief|env|all]")
      ->check(cli::one_of({"brief", "env", "all"}));
}

std::vector<GivenOption> ShowOptions::given() const {
  if (format_.empty()) return {};
  return {{"--format=" + format_, kEvents, is_json()}};
}

std::vector<std::string> ShowOptions::shell_options() const {
  if (!is_json()) return {};
  return {kEvents};
}

std::vector<std::string> ShowOptions::shell_words() const {
  std::vector<std::string> out;
  if (explains()) out.push_back(explain_ == "all" ? "--explain" : "--explain=" + explain_);
  if (quiet_) out.emplace_back("--quiet");
  return out;
}

}  // namespace nacre::front
