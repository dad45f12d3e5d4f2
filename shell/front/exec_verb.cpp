// SPDX-License-Identifier: Apache-2.0
//
// nacre exec; see nacre-exec(1).
#include <algorithm>

#include <fmt/format.h>

#include "base/print.hpp"
#include "base/text.hpp"
#include "base/variable.hpp"
#include "cli/command_line.hpp"
#include "front/exec_run.hpp"
#include "front/exec_terminal.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"
#include "io/terminal.hpp"
#include "value/duration.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"

namespace nacre::front {
namespace {

constexpr const char* kOneTarget =
    "--pty: a terminal is that of one command: name one rank (-r), host (-w) or shell (--shells)";
constexpr int kUsageError = 2;  // exit code

class Exec final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::none);
    verb_->prefix_command();
    verb_->add_option("-r,--ranks", ranks_, "Beside these tasks, in their environment: 0-3,7")
        ->option_text("RANKS");
    verb_->add_option("--shells", shells_, "On the nodes of these shells: 0-3,7")->option_text("IDS");
    verb_->add_option("-w,--hosts", hosts_, "On these hosts: n[0-3]")->option_text("HOSTS");
    verb_->add_option("-x,--exclude", exclude_, "Not on these hosts")->option_text("HOSTS");
    verb_->add_flag("-l,--label", labels_, "Begin each line with the host, or with -r the rank");
    verb_->add_flag("-N,--no-label", plain_, "Print what comes, as it comes");
    verb_->add_flag("-b,--fold", folds_, "Print equal outputs once, at the end");
    verb_->add_flag("-L,--fold-live", folds_live_, "Print equal lines once, while they come");
    verb_->at_most_one({"--label", "--no-label", "--fold", "--fold-live"});
    verb_->add_flag("-S", largest_, "Exit with the largest code (the default)");
    verb_->add_option("--exit-policy", policy_, "Exit with: max, main, all, main+all or first")
        ->option_text("POLICY")
        ->check(exits::Policy::kind_of)
        ->excludes({"-S"});
    verb_->add_flag("-k,--kill-on-failure", kills_, "End all when one fails");
    verb_->add_option("-u,--time-limit", limit_, "End all after this time")
        ->option_text("DURATION")
        ->check(value::Duration::parse);
    verb_->add_flag("-i,--input", input_, "Pass standard input on to all");
    verb_->add_flag("-d,--detach", detaches_, "Leave when all have started; they end with the job")
        ->excludes({"-i"});
    verb_->add_flag("--pty", pty_, "On a terminal of its node, joined to this one: one command; ~. leaves")
        ->excludes({"-l", "-N", "-b", "-L", "-S", "--exit-policy", "-k", "-u", "-i", "-d", "--json"});
    verb_->add_option("--env", env_, "Set a variable, once or more often")
        ->option_text("NAME=VALUE")
        ->check([](const std::string& text) -> Result<void> {
          if (text.find('=') != std::string::npos && !text.starts_with('=')) return {};
          return invalid(fmt::format("{}: expected NAME=VALUE", in_quotes(text)));
        });
    verb_->add_option("--cwd", cwd_, "Their working directory")->option_text("DIR");
    add_reach();
  }

  Result<void> check_usage() override {
    CHECK_OK(take_words());
    CHECK_OK(check_targets());
    return pty_ ? check_one_target() : Result<void>();
  }

 private:
  Result<void> take_words() {
    words_ = verb_->rest();
    if (!words_.empty() && words_[0] == "--") {
      words_.erase(words_.begin());
    } else if (words_.size() > 1 && words_[1] == "--") {
      names_ = {words_[0]};
      words_.erase(words_.begin(), words_.begin() + 2);
    } else {
      may_begin_with_job_ = words_.size() > 1;
    }
    if (words_.empty()) return invalid("expected a command");
    return {};
  }

  [[nodiscard]] Result<void> check_targets() const {
    if (verb_->count("-r") > 0) CHECK_OK(idset_of("--ranks", ranks_, "rank"));
    if (verb_->count("--shells") > 0) CHECK_OK(idset_of("--shells", shells_, "shell"));
    if (verb_->count("-w") > 0) CHECK_OK(hosts_of("--hosts", hosts_));
    if (verb_->count("-x") > 0) CHECK_OK(hosts_of("--exclude", exclude_));
    return {};
  }

  // The leader looks at what is left: which shells are on a host.
  [[nodiscard]] Result<void> check_one_target() const {
    auto ranks = value::Idset::parse(ranks_);
    auto shells = value::Idset::parse(shells_);
    auto hosts = value::Hostlist::parse(hosts_);
    if ((ranks && ranks->size() > 1) || (shells && shells->size() > 1) || (hosts && hosts->names().size() > 1))
      return invalid(kOneTarget);
    return {};
  }

  // A job's name may be that of its command, so a name needs "--" behind it; an id does not.
  [[nodiscard]] bool begins_with_job() {
    if (!may_begin_with_job_) return false;
    auto found = list().find(words_[0]);
    return found && (words_[0] != (*found)->entry.name);
  }

  [[nodiscard]] Json arguments() const {
    Json out{{"command", words_}};
    if (verb_->count("-r") > 0) out["ranks"] = ranks_;
    if (verb_->count("--shells") > 0) out["shells"] = shells_;
    if (verb_->count("-w") > 0) out["hosts"] = hosts_;
    if (verb_->count("-x") > 0) out["exclude"] = exclude_;
    for (const std::string& each : env_) {
      std::size_t at = each.find('=');
      out["env"][each.substr(0, at)] = each.substr(at + 1);
    }
    if (!cwd_.empty()) out["cwd"] = cwd_;
    if (input_) out["stdin"] = true;
    if (detaches_) out["detach"] = true;
    return out;
  }

  Result<int> run_verb() override {
    if (begins_with_job()) {
      names_ = {words_[0]};
      words_.erase(words_.begin());
    }
    record::Listed job = TRY(running_job());
    if (pty_) return run_on_terminal(job);
    ExecRequest request;
    request.arguments = arguments();
    using Mode = ExecOutput::Mode;
    if (plain_) request.mode = Mode::raw;
    if (labels_) request.mode = Mode::lines;
    if (folds_) request.mode = Mode::at_end;
    if (folds_live_) request.mode = Mode::live;
    request.json = json_;
    request.quiet = quiet_;
    request.input = input_;
    request.kill_on_failure = kills_;
    if (!limit_.empty()) {
      auto limit = TRY(value::Duration::parse(limit_));
      if (!limit.is_infinite()) request.limit = event::Seconds(limit.seconds());
    }
    if (!policy_.empty()) request.policy = TRY(exits::Policy::kind_of(policy_));
    ExecRun run(TRY(reach_job(job)), std::move(request));
    return run.run();
  }

  Result<int> run_on_terminal(const record::Listed& job) {
    if (!io::at_terminal()) return Error{ENOTTY, "--pty: standard input or output is not a terminal"};
    bool names_target = verb_->count("-r") + verb_->count("-w") + verb_->count("--shells") > 0;
    if (!names_target && job.entry.shells > 1 && verb_->count("-x") == 0) {
      print_err("nacre exec: {}\n", kOneTarget);
      return kUsageError;
    }
    Json arguments = this->arguments();
    if (auto terminal = own_variable("TERM"); terminal && !arguments["env"].contains("TERM"))
      arguments["env"]["TERM"] = *terminal;
    return exec_on_terminal(TRY(reach_job(job)), std::move(arguments), quiet_);
  }

  std::vector<std::string> words_, env_;
  std::string ranks_, shells_, hosts_, exclude_, policy_, limit_, cwd_;
  bool labels_ = false, plain_ = false, folds_ = false, folds_live_ = false, largest_ = false;
  bool kills_ = false, input_ = false, detaches_ = false, pty_ = false, may_begin_with_job_ = false;
};

}  // namespace

VerbPtr make_exec() { return std::make_unique<Exec>(); }

}  // namespace nacre::front
