// SPDX-License-Identifier: Apache-2.0
//
// nacre initrc check; see nacre-initrc(1).

#include "cli/initrc_verb.hpp"

#include <regex>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "cli/plugin_verb.hpp"
#include "cli/verbs.hpp"
#include "job/option_table.hpp"
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

// ---- initrc findings --------------------------------------------------------------------

namespace {

constexpr const char* kNamed = R"(shell\.options(?:\.([A-Za-z_]\w*)|\s*\[\s*["']([^"']+)["']\s*\]))";
constexpr const char* kDeclared = R"(nacre\.option\s*\{[^}]*?\bname\s*=\s*["']([^"']+)["'])";

// Replaces comments by blanks, so that positions do not change.
std::string without_comments(std::string_view text) {
  std::string out(text);
  for (std::size_t at = out.find("--"); at != std::string::npos; at = out.find("--", at)) {
    std::size_t end = out.compare(at + 2, 2, "[[") == 0 ? out.find("]]", at) : out.find('\n', at);
    for (; at < std::min(end, out.size()); ++at) {
      if (out[at] != '\n') out[at] = ' ';
    }
  }
  return out;
}

void add_matches(const std::string& text, const char* pattern, bool is_declared, std::vector<NamedOption>& out) {
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match) {
    std::string name = (*match)[1].matched ? (*match)[1].str() : (*match)[2].str();
    auto line = 1 + std::count(text.begin(), text.begin() + match->position(), '\n');
    out.push_back({std::move(name), static_cast<int>(line), is_declared});
  }
}

std::string nearest_option(const std::string& name) {
  if (name.find('.') == std::string::npos) return nearest(name, job::known_options()).value_or("");
  std::vector<std::string> whole;
  for (const auto& each : job::option_table()) whole.emplace_back(each.name);
  return nearest(name, whole).value_or("");
}

}  // namespace

std::vector<NamedOption> named_options(std::string_view text) {
  std::vector<NamedOption> out;
  std::string code = without_comments(text);
  add_matches(code, kNamed, false, out);
  add_matches(code, kDeclared, true, out);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return out;
}

std::vector<UnknownOption> unknown_options(std::string_view text) {
  std::vector<NamedOption> named = named_options(text);
  std::set<std::string> known{"standalone"};  // a member of shell.options, but not an option
  for (const NamedOption& each : named) {
    if (each.is_declared) known.insert(each.name);
  }
  std::vector<UnknownOption> out;
  for (const NamedOption& each : named) {
    std::string top(split(each.name, '.').front());
    if (known.contains(top) || job::is_known_option(each.name) || !known.insert(each.name).second) continue;
    out.push_back({each.name, each.line, nearest_option(each.name)});
  }
  return out;
}

}  // namespace nacre::cli
