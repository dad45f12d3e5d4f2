// SPDX-License-Identifier: Apache-2.0
//
// nacre run; see nacre-run(1).
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/caller.hpp"
#include "front/exit_options.hpp"
#include "front/foreign_options.hpp"
#include "front/place_options.hpp"
#include "front/rehearse_options.hpp"
#include "front/run_here.hpp"
#include "front/run_options.hpp"
#include "front/show_options.hpp"
#include "front/timeline_option.hpp"
#include "front/usage_options.hpp"
#include "front/verbs.hpp"
#include "job/distribute.hpp"
#include "job/jobspec.hpp"
#include "job/on_lost.hpp"
#include "job/options.hpp"
#include "launch/launcher.hpp"
#include "value/taskmap.hpp"

namespace nacre::front {
namespace {

constexpr const char* kFrontEnd = "nacre run";  // has chosen an option by itself

class Run final : public cli::Verb {
 public:
  void add_to(cli::CommandLine& verb) override {
    verb_ = &verb;
    verb_->prefix_command("COMMAND [ARG...]");
    verb_->order_groups({"Tasks", "Hosts", "Input and output", "Exit code", "Environment"});
    verb_->add_example("nacre run -n 4 hostname", "four tasks, on this host or in the allocation");
    verb_->add_example("nacre run --hosts='n[0-3]' --tasks-per-node=8 -l ./app",
                       "on four hosts by ssh, lines with their rank");
    verb_->add_example("nacre run -n 8 -c 4 --output='out.{{task.rank}}' ./app",
                       "four cores each, a file for each task");
    verb_->take_foreign(foreign_options());
    options_.add_to(*verb_);
    places_.add_to(*verb_, "by default those of the allocation that this is run in, else this host");
    places_.add_pretend(*verb_);
    rehearse_.add_to(*verb_);
    show_.add_to(*verb_, "brief");
    usage_.add_to(*verb_);
    timeline_.add_to(*verb_);
    exits_.add_to(*verb_);
  }

  Result<void> check_usage() override {
    CHECK_OK(exits_.check(options_.setopt()));
    CHECK_OK(places_.check());
    CHECK_OK(options_.take_words(verb_->rest()));
    return check_show();
  }

  Result<int> run() override {
    // A shell without job control ignores SIGINT and SIGQUIT for what it starts in the background; this process
    // handles them.
    for (int signum : {SIGINT, SIGQUIT}) std::signal(signum, SIG_DFL);
    Places places = TRY(find_places());
    CHECK_OK(rehearse_.allow(places.by_srun));
    JobPlan job = TRY(options_.file().empty() ? job_of_command(places) : job_of_file(places));
    if (options_.prints_jobspec()) {
      print_out("{}\n", job.jobspec);
      return 0;
    }
    if (places.pretended && !show_.is_quiet() && !show_.explains())
      print_err("nacre run: made-up nodes on this host: {} of {}, each of {}; tasks are not bound\n", job.shells,
                places.pretended->nodes, places.pretended->node_words());
    LaunchPlan plan = TRY(plan_of(std::move(places), std::move(job)));
    // Then another process than the shell has to be the launcher, which can go.
    bool parts = options_.detaches() || plan.outlived;
    bool may_part = plan.record.detaching == launch::Detaching::on_request && ::isatty(STDIN_FILENO) == 1;
    if (parts && options_.lends_terminal())
      return invalid("--pty: a job that goes on without this process cannot have its terminal; --pty=RANKS can be");
    if (is_here(plan) && !parts && !may_part) return run_here(std::move(plan));
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
    std::map<std::string, std::string> sources = {};  // of options, who has set them
  };

  // What -o may set too.
  [[nodiscard]] std::vector<GivenOption> given() const {
    std::vector<GivenOption> out = options_.given();
    for (GivenOption& each : show_.given()) out.push_back(std::move(each));
    for (GivenOption& each : usage_.given()) out.push_back(std::move(each));
    for (GivenOption& each : timeline_.given()) out.push_back(std::move(each));
    for (GivenOption& each : rehearse_.given()) out.push_back(std::move(each));
    if (!exits_.report().empty()) out.push_back({"--report=" + exits_.report(), "report", exits_.report()});
    if (!places_.pretend().empty()) out.push_back({"--pretend=" + places_.pretend(), "pretend", places_.pretend()});
    if (!places_.initrc().empty()) out.push_back({"--initrc=" + places_.initrc(), "initrc", places_.initrc()});
    return out;
  }

  [[nodiscard]] Result<void> check_show() const {
    CHECK_OK(refuse_contradictions(given(), options_.setopt()));
    if (options_.detaches() && show_.explains())
      return invalid("--detach and --explain exclude each other: no job runs");
    if (!show_.is_json()) return {};
    if (options_.labels()) return invalid("--format=json has the rank of each line: leave out --label-io");
    if (options_.lends_terminal())
      return invalid("--format=json and --pty exclude each other: --pty=RANKS captures what tasks write");
    if (show_.explains()) return invalid("--format=json and --explain exclude each other: the plan is text");
    return {};
  }

  [[nodiscard]] std::vector<std::string> setopt() const {
    std::vector<std::string> out = options_.setopt();
    for (std::string& each : exits_.shell_options()) out.push_back(std::move(each));
    for (std::string& each : show_.shell_options()) out.push_back(std::move(each));
    for (std::string& each : usage_.shell_options()) out.push_back(std::move(each));
    for (std::string& each : timeline_.shell_options()) out.push_back(std::move(each));
    for (std::string& each : rehearse_.shell_options()) out.push_back(std::move(each));
    if (!places_.pretend().empty()) out.push_back("pretend=" + places_.pretend());
    return out;
  }

  [[nodiscard]] Result<Places> find_places() const {
    auto found = TRY(places_.find(true));
    if (found) return *std::move(found);
    Places here;
    here.hosts = {"localhost"};
    here.is_local = true;
    return here;
  }

  // The spares that the options of this command ask for; a jobspec of a file may ask for some as well.
  [[nodiscard]] Result<std::uint32_t> spares() const {
    job::Options given;
    CHECK_OK(options_.set_options(given));
    for (const std::string& each : setopt()) CHECK_OK(in("-o " + each, given.set_from_argument(each)));
    return job::spares_of(given);
  }

  [[nodiscard]] Result<JobPlan> job_of_command(const Places& places) const {
    SizeRequest wanted = TRY(options_.sizes(TRY(spares())));
    // --local=N is a number of nodes, as -N is, with the spares.
    if (places.is_counted && !wanted.nodes && !wanted.tasks && *places.most() > wanted.spares)
      wanted.nodes = *places.most() - wanted.spares;
    const bool is_open = !wanted.tasks && !wanted.nodes && !wanted.tasks_per_node;
    if (places.is_named && places.most()) wanted = size_of_places(wanted, *places.most(), places.tasks);
    JobSize size = TRY(size_of(wanted, places.most()));
    JobRequest request = TRY(options_.request(size, setopt()));
    job::Options known(request.options);
    for (const std::string& each : ExitOptions::defaults(known)) CHECK_OK(known.set_from_argument(each));
    if (is_open && places.is_named) follow_slots(places, size, known);
    take_limits(places, known);
    request.options = known.json();
    Json jobspec = TRY(jobspec_of(request));
    auto sources = sources_of(given(), setopt());
    sources[""] = kFrontEnd;
    return JobPlan{dump_json(jobspec), std::move(known), size.shells(), std::move(sources)};
  }

  // As it has them, tasks elsewhere have them: on this host they inherit them, and srun brings them itself.
  static void take_limits(const Places& places, job::Options& options) {
    auto is_elsewhere = [](const std::string& host) { return !launch::is_this_host(host); };
    if (places.is_local || places.by_srun || std::none_of(places.hosts.begin(), places.hosts.end(), is_elsewhere))
      return;
    for (const auto& [name, limit] : own_limits()) {
      bool has_other_name = name == "rlimit.nofile" && options.find("rlimit.ofile") != nullptr;
      if (options.find(name) == nullptr && !has_other_name) options.set(name, limit);
    }
  }

  // Each host gets as many tasks as it has slots: where that is not what all get evenly, and no other map, and no
  // number of cores or gpus for each task, is asked for.
  void follow_slots(const Places& places, const JobSize& size, job::Options& options) const {
    if (show_.explains() && places.tasks)
      print_err("nacre run: tasks: {}, as {} has it\n", size.tasks, places.tasks_source);
    const std::vector<std::uint32_t>& slots = places.slots;
    const bool all_known =
        std::find(slots.begin(), slots.end(), 0U) == slots.end() && slots.size() == size.shells();
    const bool is_even = std::adjacent_find(slots.begin(), slots.end(), std::not_equal_to<>()) == slots.end();
    const bool is_all = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0}) == size.tasks;
    if (!all_known || is_even || !is_all || size.spares > 0 || options_.sizes_slots() ||
        options.find("taskmap") != nullptr)
      return;
    options.set("taskmap", "manual:" + value::Taskmap::block(slots).str());
  }

  [[nodiscard]] Result<JobPlan> job_of_file(const Places& places) const {
    const std::string& path = options_.file();
    std::string text = TRY(read_file(path));
    job::Jobspec spec = TRY(in(path == "-" ? "standard input" : path, job::Jobspec::parse(text)));
    job::Options known(spec.options);
    CHECK_OK(options_.set_options(known));
    for (const std::string& each : setopt()) CHECK_OK(in("-o " + each, known.set_from_argument(each)));
    auto sources = sources_of(given(), setopt());
    for (const std::string& each : ExitOptions::defaults(known)) {
      sources[each.substr(0, each.find('='))] = kFrontEnd;
      CHECK_OK(known.set_from_argument(each));
    }
    take_limits(places, known);
    Json& attributes = spec.document["attributes"];
    if (attributes.is_null()) attributes = Json::object();
    attributes["system"]["shell"]["options"] = known.json();
    CHECK_OK(options_.change(spec.document));
    std::uint32_t most = places.most().value_or(spec.nodes.value_or(1 + TRY(job::spares_of(known))));
    std::string jobspec = TRY(with_callers(std::move(spec.document)));
    return JobPlan{std::move(jobspec), std::move(known), most, std::move(sources)};
  }

  Result<LaunchPlan> plan_of(Places places, JobPlan job) {
    LaunchPlan plan;
    plan.record.front = "nacre run";
    for (std::string& each : show_.shell_words()) places_.add_shell_option(std::move(each));
    if (show_.explains()) plan.record.sources = std::move(job.sources);
    plan.quiet = show_.is_quiet();
    CHECK_OK(places_.put(std::move(places), job.shells, plan));
    plan.record.jobspec = std::move(job.jobspec);
    // The jobspec has them too, where a limit above a hard one is no error.
    for (const std::string& each : options_.setopt()) {
      if (each.starts_with("rlimit")) plan.record.options.push_back(each);
    }
    CHECK_OK(job::OnLost::read(job.options));
    CHECK_OK(job::spares_of(job.options));
    if (!options_.notify().empty()) plan.reports.push_back({"--notify", "exit-notify", options_.notify()});
    if (!exits_.report().empty()) plan.reports.push_back({"--report", "report", exits_.report(), true});
    for (LaunchReport& each : usage_.reports()) plan.reports.push_back(std::move(each));
    for (LaunchReport& each : TRY(timeline_.reports())) plan.reports.push_back(std::move(each));
    plan.input = options_.file() == "-" || is_null(STDIN_FILENO) ? -1 : STDIN_FILENO;
    plan.record.input = plan.input >= 0;
    let_leave(job.options, plan);
    if (!show_.explains()) CHECK_OK(read_on_launcher_lost(job.options, plan));
    if (options_.detaches()) CHECK_OK(detach_at_start(job.options, plan));
    return plan;
  }

  cli::CommandLine* verb_ = nullptr;
  RunOptions options_;
  PlaceOptions places_;
  ExitOptions exits_;
  ShowOptions show_;
  UsageOptions usage_;
  TimelineOption timeline_;
  RehearseOptions rehearse_;
};

}  // namespace

VerbPtr make_run() { return std::make_unique<Run>(); }

}  // namespace nacre::front
