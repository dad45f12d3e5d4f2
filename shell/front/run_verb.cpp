// SPDX-License-Identifier: Apache-2.0
//
// nacre run; see nacre-run(1).
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/print.hpp"
#include "base/text.hpp"
#include "front/caller.hpp"
#include "front/exit_options.hpp"
#include "front/place_options.hpp"
#include "front/run_here.hpp"
#include "front/run_options.hpp"
#include "front/verbs.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"

namespace nacre::front {
namespace {

class Run final : public cli::Verb {
 public:
  void add_to(CLI::App& nacre) override {
    verb_ =
        nacre.add_subcommand("run", "Run a command as the tasks of a job: nacre run [OPTIONS] COMMAND [ARG...]");
    verb_->prefix_command();
    options_.add_to(*verb_);
    places_.add_to(*verb_, "By default those of the allocation that this is run in, else this host");
    exits_.add_to(*verb_, options_.setopt());
    verb_->parse_complete_callback([this] {
      exits_.check(options_.setopt());
      take_words();
    });
  }

  [[nodiscard]] bool chosen() const override { return verb_->parsed(); }

  Result<int> run() override {
    // A shell without job control ignores SIGINT and SIGQUIT for what it starts in the background; this process
    // handles them.
    for (int signum : {SIGINT, SIGQUIT}) std::signal(signum, SIG_DFL);
    Places places = TRY(find_places());
    JobPlan job = TRY(options_.file().empty() ? job_of_command(places) : job_of_file(places));
    if (options_.prints_jobspec()) {
      print_out("{}\n", job.jobspec);
      return 0;
    }
    LaunchPlan plan = TRY(plan_of(std::move(places), std::move(job)));
    if (is_here(plan)) return run_here(std::move(plan));
    if (options_.lends_terminal() && ::isatty(STDIN_FILENO) == 1)
      return invalid(
          "--pty: a task can have this terminal only where the job is one shell on this host; "
          "with --pty=RANKS tasks have terminals whose output comes out here");
    return launch(std::move(plan));
  }

 private:
  struct JobPlan {
    std::string jobspec;  // text
    job::Options options;
    std::uint32_t shells = 1;
  };

  // The options end at the first word that is not an option.
  void take_words() {
    std::vector<std::string> words = verb_->remaining();
    if (!words.empty() && words[0] == cli::kEndOfOptions)
      words.erase(words.begin());
    else if (!words.empty() && words[0].size() > 1 && words[0].starts_with('-'))
      throw CLI::ValidationError(fmt::format("{} is not known here", in_quotes(words[0])));
    std::replace(words.begin(), words.end(), std::string(cli::kEndOfOptions), std::string("--"));
    if (auto taken = options_.take_words(words); !taken) throw CLI::ValidationError(taken.error().message);
  }

  [[nodiscard]] Result<Places> find_places() const {
    auto found = TRY(places_.find(true));
    if (found) return *std::move(found);
    Places here;
    here.hosts = {"localhost"};
    here.is_local = true;
    return here;
  }

  [[nodiscard]] Result<JobPlan> job_of_command(const Places& places) const {
    SizeRequest wanted = TRY(options_.sizes());
    // --local=N is a number of nodes, as -N is.
    if (places.is_counted && !wanted.nodes && !wanted.tasks) wanted.nodes = places.most();
    JobSize size = TRY(size_of(wanted, places.most()));
    std::vector<std::string> setopt = options_.setopt();
    for (std::string& each : exits_.shell_options()) setopt.push_back(std::move(each));
    JobRequest request = TRY(options_.request(size, setopt));
    job::Options known(request.options);
    for (const std::string& each : ExitOptions::defaults(known)) CHECK_OK(known.set_from_argument(each));
    request.options = known.json();
    Json jobspec = TRY(jobspec_of(request));
    return JobPlan{dump_json(jobspec), std::move(known), size.nodes};
  }

  [[nodiscard]] Result<JobPlan> job_of_file(const Places& places) const {
    const std::string& path = options_.file();
    std::string text = TRY(read_file(path));
    job::Jobspec spec = TRY(in(path == "-" ? "standard input" : path, job::Jobspec::parse(text)));
    job::Options known(spec.options);
    CHECK_OK(options_.set_options(known));
    std::vector<std::string> setopt = options_.setopt();
    for (std::string& each : exits_.shell_options()) setopt.push_back(std::move(each));
    for (const std::string& each : setopt) CHECK_OK(in("-o " + each, known.set_from_argument(each)));
    for (const std::string& each : ExitOptions::defaults(known)) CHECK_OK(known.set_from_argument(each));
    Json& attributes = spec.document["attributes"];
    if (attributes.is_null()) attributes = Json::object();
    attributes["system"]["shell"]["options"] = known.json();
    CHECK_OK(options_.change(spec.document));
    std::uint32_t most = places.most().value_or(spec.nodes.value_or(1));
    std::string jobspec = TRY(with_callers(std::move(spec.document)));
    return JobPlan{std::move(jobspec), std::move(known), most};
  }

  Result<LaunchPlan> plan_of(Places places, JobPlan job) {
    LaunchPlan plan;
    if (options_.explains()) places_.add_shell_option("--explain");
    CHECK_OK(places_.put(std::move(places), job.shells, plan));
    plan.record.jobspec = std::move(job.jobspec);
    // The jobspec has them too, where a limit above a hard one is no error.
    for (const std::string& each : options_.setopt()) {
      if (each.starts_with("rlimit")) plan.record.options.push_back(each);
    }
    plan.tolerates_loss = TRY(job.options.flag("tolerate-loss"));
    if (!options_.notify().empty()) plan.reports.push_back({"--notify", "exit-notify", options_.notify()});
    if (!exits_.report().empty()) plan.reports.push_back({"--report", "report", exits_.report(), true});
    plan.input = options_.file() == "-" || is_null(STDIN_FILENO) ? -1 : STDIN_FILENO;
    plan.record.input = plan.input >= 0;
    return plan;
  }

  CLI::App* verb_ = nullptr;
  RunOptions options_;
  PlaceOptions places_;
  ExitOptions exits_;
};

}  // namespace

VerbPtr make_run() { return std::make_unique<Run>(); }

}  // namespace nacre::front
