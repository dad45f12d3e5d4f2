// SPDX-License-Identifier: Apache-2.0
//
// nacre launch; see nacre-launch(1).
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "front/given_options.hpp"
#include "front/job_request.hpp"
#include "front/launch_run.hpp"
#include "front/place_options.hpp"
#include "front/verbs.hpp"
#include "job/job.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"
#include "job/resources.hpp"

namespace nacre::front {
namespace {

using launch::LaunchRecord;

std::string_view shown(const std::string& path) { return path == "-" ? "standard input" : std::string_view(path); }

Result<job::Jobspec> read_jobspec(const std::string& path) {
  std::string text = TRY(read_file(path));
  return in(shown(path), job::Jobspec::parse(text));
}

Result<std::string> read_resources(const std::string& path, std::size_t shells) {
  std::string text = TRY(read_file(path));
  std::size_t nodes = TRY(in(shown(path), job::Resources::parse(text))).nodes.size();
  if (nodes == shells) return text;
  return invalid(fmt::format("{}: {} nodes, but there are {} shells: one is for each", shown(path), nodes, shells));
}

// The options that are known before the job starts; an initrc may set more.
Result<job::Options> options_of(const job::Jobspec& spec, const std::vector<std::string>& arguments) {
  job::Options options(spec.options);
  for (const std::string& each : arguments) CHECK_OK(in("-o " + each, options.set_from_argument(each)));
  return options;
}

class Launch final : public cli::Verb {
 public:
  void add_to(cli::CommandLine& verb) override {
    verb_ = &verb;
    places_.add_to(*verb_, "by default those of the allocation that this is run in");
    verb_
        ->add_number("-n,--nodes", nodes_, "Only the first N of them; for srun, how many",
                     {1, group::Membership::kMaxShells})
        ->option_text("N");
    add_job();
    show_.add_to(*verb_, "all");
    verb_->begin_group("Exit code", "see nacre-exits(7)");
    words_.add_to(*verb_, "Exit code");
    verb_->begin_group("");
    verb_->add_option("OPTION", shell_options_, "Behind --: options of nacre-shell")->option_text("...");
  }

  Result<void> check_usage() override { return refuse_contradictions(given(), options_); }

  Result<int> run() override {
    // A shell without job control ignores SIGINT and SIGQUIT for what it starts in the background; this process
    // handles them.
    for (int signum : {SIGINT, SIGQUIT}) std::signal(signum, SIG_DFL);
    LaunchPlan plan = TRY(make_plan());
    return launch(std::move(plan));
  }

 private:
  void add_job() {
    verb_->add_option("-j,--jobspec", jobspec_, "Read the jobspec (JSON or YAML) from FILE; - is stdin")
        ->option_text("FILE")
        ->required();
    verb_
        ->add_option("-R,--resources", resources_,
                     "Read the resource set R from FILE (default: what the hosts have)")
        ->option_text("FILE");
    words_.add_to(*verb_, "Tasks");
    words_.add_to(*verb_, "");
    verb_->add_flag("-d,--detach", detach_, "Print the job's id once it runs, and leave it");
    verb_->add_option("-o,--setopt", options_, "Set a shell option, see nacre-shell-options(7); may be repeated")
        ->option_text("OPT[=VAL]");
  }

  // Options that -o may set as well.
  [[nodiscard]] std::vector<GivenOption> given() const {
    std::vector<GivenOption> out = words_.given();
    if (!places_.initrc().empty()) out.push_back({"--initrc=" + places_.initrc(), "initrc", places_.initrc()});
    return out;
  }

  [[nodiscard]] Result<std::uint32_t> count_of(const Places& places, const job::Jobspec& spec,
                                               std::uint32_t spares) const {
    auto most = places.most();
    if (nodes_ > 0 && most && !places.by_srun && nodes_ > *most)
      return invalid(fmt::format("--nodes: {}, but there are {} hosts", nodes_, *most));
    if (nodes_ > 0) return nodes_;
    // Outside of an allocation srun requests one.
    return most ? *most : spec.nodes.value_or(1 + spares);
  }

  Result<LaunchPlan> make_plan() {
    if (jobspec_ == "-" && resources_ == "-") return invalid("-j and -R cannot both be standard input");
    if (!shell_options_.empty() && !shell_options_[0].starts_with('-')) {
      return invalid(
          fmt::format("{} is not known here; options of nacre-shell go behind --", in_quotes(shell_options_[0])));
    }
    auto places = TRY(places_.find(false));
    if (!places)
      return invalid("no allocation is known here: give --hosts=LIST, --hostfile=FILE, --local=N or --srun");
    for (std::string& each : show_.shell_words()) places_.add_shell_option(std::move(each));
    for (std::string& each : shell_options_) places_.add_shell_option(std::move(each));
    job::Jobspec spec = TRY(read_jobspec(jobspec_));
    job::Options known = TRY(options_of(spec, options_));
    words_.set(known);
    std::uint32_t spares = TRY(job::spares_of(known));
    std::uint32_t count = TRY(count_of(*places, spec, spares));
    LaunchPlan plan;
    LaunchRecord& record = plan.record;
    CHECK_OK(places_.put(*std::move(places), count, plan));
    if (!resources_.empty()) record.resources = TRY(read_resources(resources_, record.size));
    record.options = options_;
    for (std::string& each : words_.shell_options()) record.options.push_back(std::move(each));
    plan.quiet = show_.is_quiet();
    CHECK_OK(job::OnLost::read(known));
    for (std::string& each : GivenOptions::defaults(known)) {
      if (show_.explains()) record.sources[each.substr(0, each.find('='))] = "nacre launch";
      record.options.push_back(std::move(each));
    }
    record.jobspec = TRY(with_callers(std::move(spec.document)));
    plan.reports = TRY(words_.reports());
    plan.input = jobspec_ == "-" || resources_ == "-" || is_null(STDIN_FILENO) ? -1 : STDIN_FILENO;
    record.input = plan.input >= 0;
    let_leave(known, plan);
    CHECK_OK(read_on_launcher_lost(known, plan));
    bool explains = std::find(record.shell.begin(), record.shell.end(), "--explain") != record.shell.end();
    if (detach_ && explains) return invalid("--detach: no job runs with --explain");
    if (detach_) CHECK_OK(detach_at_start(known, plan));
    return plan;
  }

  cli::CommandLine* verb_ = nullptr;
  PlaceOptions places_;
  std::uint32_t nodes_ = 0;
  std::string jobspec_;
  std::string resources_;
  bool detach_ = false;
  std::vector<std::string> options_;
  GivenOptions words_{GivenOptions::Verb::launch};
  ShowOptions show_;
  std::vector<std::string> shell_options_;
};

}  // namespace

VerbPtr make_launch() { return std::make_unique<Launch>(); }

}  // namespace nacre::front
