// SPDX-License-Identifier: Apache-2.0
//
// nacre initrc check; see nacre-initrc(1).
#include <fmt/format.h>

#include "base/file.hpp"
#include "base/installed.hpp"
#include "base/print.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/initrc_findings.hpp"
#include "cli/plugin_verb_findings.hpp"
#include "cli/plugin_verb_list.hpp"
#include "cli/plugin_verb_run.hpp"
#include "cli/verbs.hpp"
#include "version.hpp"

namespace nacre::cli {
namespace {

constexpr double kInitrcTimeLimit = 60;  // seconds: as long as in a job

struct CheckedInitrc {
  std::vector<std::string> problems;
  std::vector<std::string> notes;
  std::vector<std::string> files;
  std::vector<std::string> plugins;
};

void note_options(const std::string& file, CheckedInitrc& out) {
  auto text = read_file(file);
  if (!text) return out.problems.push_back(text.error().message);
  for (const UnknownOption& each : unknown_options(*text)) {
    std::string place = fmt::format("{}:{}: ", file, each.line);
    if (each.nearest.empty()) {
      out.notes.push_back(fmt::format("{}note: the option {} is this file's own", place, in_quotes(each.name)));
    } else {
      out.problems.push_back(fmt::format("{}names the option {}, which nobody knows: did you mean {}?", place,
                                         in_quotes(each.name), in_quotes(each.nearest)));
    }
  }
}

void note_topics(const ListedPlugin& plugin, CheckedInitrc& out) {
  if (plugin.origin == kBuiltin) return;
  out.plugins.push_back(plugin.name);
  for (const std::string& topic : plugin.topics) {
    auto finding = judge_topic(topic);
    if (!finding) continue;
    auto& list = finding->is_problem ? out.problems : out.notes;
    list.push_back(fmt::format("{}: {}plugin {} {}: {}", plugin.origin, finding->is_problem ? "" : "note: ",
                               in_quotes(plugin.name), finding->what, finding->remedy));
  }
}

Result<CheckedInitrc> check_initrc(const std::string& file, const std::vector<std::string>& options) {
  ScratchDirectory scratch = TRY(ScratchDirectory::create());
  ShellRun run;
  run.arguments = TRY(write_smallest_job(scratch));
  for (const std::string& each : options) run.arguments.insert(run.arguments.end(), {"-o", each});
  run.arguments.push_back("--initrc=" + file);
  run.arguments.emplace_back("--explain=plugins");
  run.time_limit = kInitrcTimeLimit;
  ShellOutcome outcome = TRY(run_shell(run));
  CheckedInitrc out;
  if (outcome.timed_out) {
    out.problems.push_back(fmt::format("{}: has not come to its end after {} s", file, kInitrcTimeLimit));
  } else if (!outcome.status.success()) {
    std::string reason = reason_in(outcome.err);
    out.problems.push_back(reason.empty() ? fmt::format("{}: the shell {}", file, outcome.status.str()) : reason);
  }
  if (!out.problems.empty()) {
    note_options(file, out);
    return out;
  }
  out.files = TRY(read_files(outcome.out));
  for (const std::string& each : out.files) note_options(each, out);
  for (const ListedPlugin& each : TRY(listed_plugins(outcome.out))) note_topics(each, out);
  return out;
}

class InitrcVerb final : public Verb {
 public:
  void add_to(CommandLine& verb) override {
    verb_ = &verb;
    check_ = verb_->add_subcommand("check", "Run an initrc as a job would, and print what is wrong with it");
    check_->add_option("FILE", file_, "The initrc (default: the installed one)");
    check_->add_option("-o,--setopt", options_, "Set a shell option of the job; may be repeated")
        ->option_text("OPT[=VAL]");
  }

  Result<int> run() override {
    std::string file =
        file_.empty() ? InstalledTree(kProgramDirectory).path({kSystemInitrcFromHere}, kSystemInitrc) : file_;
    CHECK_OK(read_file(file));
    CheckedInitrc checked = TRY(in(file, check_initrc(file, options_)));
    for (const auto* list : {&checked.problems, &checked.notes}) {
      for (const std::string& each : *list) print_out("{}\n", each);
    }
    for (const std::string& each : checked.files) print_out("reads {}\n", each);
    if (!checked.problems.empty()) return 1;
    print_out("{}: fine{}{}\n", file, checked.plugins.empty() ? "" : ": plugins ",
              fmt::join(checked.plugins, ", "));
    return 0;
  }

 private:
  CommandLine* verb_ = nullptr;
  CommandLine* check_ = nullptr;
  std::string file_;
  std::vector<std::string> options_;
};

}  // namespace

VerbPtr make_initrc() { return std::make_unique<InitrcVerb>(); }

}  // namespace nacre::cli
