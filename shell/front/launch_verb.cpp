// SPDX-License-Identifier: Apache-2.0
//
// nacre launch; see nacre-launch(1).
#include <unistd.h>

#include <array>
#include <csignal>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/variable.hpp"
#include "boot/allocation.hpp"
#include "boot/identity.hpp"
#include "front/exit_options.hpp"
#include "front/launch_run.hpp"
#include "front/verbs.hpp"
#include "group/first_words.hpp"
#include "group/membership.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"
#include "job/resources.hpp"
#include "launch/launcher.hpp"
#include "version.hpp"

namespace nacre::front {
namespace {

using launch::LaunchRecord;

// The program that lies beside this one.
std::string own_shell() {
  std::array<char, 4096> path;
  ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  std::string_view own(path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  std::size_t slash = own.rfind('/');
  return slash == std::string_view::npos ? "nacre-shell" : fmt::format("{}/nacre-shell", own.substr(0, slash));
}

std::string_view shown(const std::string& path) { return path == "-" ? "standard input" : std::string_view(path); }

Result<std::string> read_jobspec(const std::string& path) {
  std::string text = TRY(read_file(path));
  CHECK_OK(in(shown(path), job::Jobspec::parse(text)));
  return text;
}

Result<std::string> read_resources(const std::string& path, std::size_t shells) {
  std::string text = TRY(read_file(path));
  std::size_t nodes = TRY(in(shown(path), job::Resources::parse(text))).nodes.size();
  if (nodes == shells) return text;
  return invalid(fmt::format("{}: {} nodes, but there are {} shells: one is for each", shown(path), nodes, shells));
}

// Those that are known here: an initrc may set more.
Result<job::Options> options_of(const std::string& jobspec, const std::vector<std::string>& arguments) {
  job::Options options(TRY(job::Jobspec::parse(jobspec)).options);
  for (const std::string& each : arguments) CHECK_OK(in("-o " + each, options.set_from_argument(each)));
  return options;
}

class Launch final : public cli::Verb {
 public:
  void add_to(CLI::App& nacre) override {
    verb_ = nacre.add_subcommand("launch", "Run a job on several hosts, or with several shells on this one");
    add_places();
    add_job();
    exits_.add_to(*verb_, options_);
    verb_->add_option("--agent", agent_, "What starts a shell on another host, called as ssh is (default: ssh)")
        ->option_text("CMD");
    add_list("--agent-arg", agent_arguments_, "An argument for it, before the host; may be repeated", "ARG");
    add_list("--srun-arg", srun_arguments_, "An argument for srun; may be repeated", "ARG");
    verb_->add_option("--shell", shell_, "nacre-shell on all hosts (default: the one beside this program)")
        ->option_text("PATH");
    verb_->add_option("--arity", arity_, "Shells that each starts and serves (default: 16)")
        ->option_text("K")
        ->check(CLI::Range(2U, LaunchRecord::kMaxArity));
    verb_->add_option("--timeout", timeout_, "Seconds that each shell may take to join (default: 30)")
        ->option_text("SECONDS")
        ->check(CLI::Range(0.001, LaunchRecord::kMaxTimeout));
    verb_->add_flag("-v,--verbose", verbose_, "Tell what is started where");
    verb_->add_option("OPTION", shell_options_, "Behind --: options of nacre-shell")->option_text("...");
  }

  [[nodiscard]] bool chosen() const override { return verb_->parsed(); }

  Result<int> run() override {
    // A shell without job control ignores them for what it starts in the background; they are taken from now on.
    for (int signum : {SIGINT, SIGQUIT}) std::signal(signum, SIG_DFL);
    LaunchPlan plan = TRY(make_plan());
    return launch(std::move(plan));
  }

 private:
  void add_list(const char* name, std::vector<std::string>& into, const char* text, const char* value) {
    verb_->add_option(name, into, text)
        ->option_text(value)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  }

  void add_places() {
    auto* places = verb_->add_option_group("Hosts", "By default those of the allocation that this is run in");
    places->add_option("--hosts", hosts_, "These: node[0-3],login")->option_text("LIST");
    places->add_option("--hostfile", hostfile_, "Those that FILE names, one a line")->option_text("FILE");
    places->add_option("--local", local_, "N shells on this host")
        ->option_text("N")
        ->check(CLI::Range(1U, std::uint32_t{4096}));
    places->add_flag("--srun", srun_, "Have Slurm's srun start them");
    places->require_option(0, 1);
    verb_->add_option("-n,--nodes", nodes_, "Only the first N of them; for srun, how many")
        ->option_text("N")
        ->check(CLI::Range(1U, group::Membership::kMaxShells));
  }

  void add_job() {
    verb_->add_option("-j,--jobspec", jobspec_, "Read the jobspec (JSON or YAML) from FILE; - is stdin")
        ->option_text("FILE")
        ->required();
    verb_
        ->add_option("-R,--resources", resources_,
                     "Read the resource set R from FILE (default: what the hosts have)")
        ->option_text("FILE");
    verb_
        ->add_option("--notify", notify_,
                     "Write how tasks end, as lines of JSON, to FILE of this host, or to the descriptor FD")
        ->option_text("FILE|FD")
        ->check([](const std::string& to) {
          return to.empty() ? "expected a file or a descriptor" : descriptor_error(to);
        });
    add_list("-o,--setopt", options_, "Set a shell option, see nacre-shell-options(7); may be repeated",
             "OPT[=VAL]");
  }

  // A word for each shell.
  Result<std::vector<std::string>> places() {
    if (local_ > 0) return std::vector<std::string>(local_, "localhost");
    std::optional<boot::Allocation> found;
    if (!hosts_.empty()) found = TRY(in("--hosts", boot::hosts_of_list(hosts_)));
    if (!hostfile_.empty()) found = TRY(in("--hostfile", boot::hosts_of_file(hostfile_)));
    if (!found) found = TRY(boot::allocation_of(own_variable));
    if (!found)
      return invalid("no allocation is known here: give --hosts=LIST, --hostfile=FILE, --local=N or --srun");
    std::vector<std::string> out;
    for (const auto& host : found->hosts) out.push_back(host.name);
    return out;
  }

  // Slurm knows the hosts, and of how many steps it is asked for.
  Result<std::size_t> srun_nodes() const {
    if (nodes_ > 0) return nodes_;
    auto found = TRY(boot::allocation_of(own_variable));
    return found ? found->hosts.size() : 1;
  }

  Result<LaunchPlan> make_plan() {
    if (jobspec_ == "-" && resources_ == "-") return invalid("-j and -R cannot both be standard input");
    if (!shell_options_.empty() && !shell_options_[0].starts_with('-')) {
      return invalid(
          fmt::format("{} is not known here; options of nacre-shell go behind --", in_quotes(shell_options_[0])));
    }
    LaunchPlan plan;
    LaunchRecord& record = plan.record;
    if (srun_) {
      record.size = static_cast<std::uint32_t>(TRY(srun_nodes()));
      plan.srun = srun_arguments_;
    } else {
      CHECK_OK(take_places(plan));
    }
    record.version = kVersion;
    record.protocol = group::kProtocol;
    record.job = boot::new_job_id();
    record.arity = arity_;
    record.timeout = timeout_;
    record.shell.push_back(shell_.empty() ? own_shell() : shell_);
    record.shell.insert(record.shell.end(), shell_options_.begin(), shell_options_.end());
    record.jobspec = TRY(read_jobspec(jobspec_));
    if (!resources_.empty()) record.resources = TRY(read_resources(resources_, record.size));
    record.options = options_;
    for (std::string& each : exits_.shell_options()) record.options.push_back(std::move(each));
    job::Options known = TRY(options_of(*record.jobspec, options_));
    plan.tolerates_loss = TRY(known.flag("tolerate-loss"));
    for (std::string& each : ExitOptions::defaults(known)) record.options.push_back(std::move(each));
    plan.verbose = verbose_;
    if (!notify_.empty()) plan.reports.push_back({"--notify", "exit-notify", notify_});
    if (!exits_.report().empty()) plan.reports.push_back({"--report", "report", exits_.report(), true});
    plan.input = jobspec_ == "-" || resources_ == "-" || is_null(STDIN_FILENO) ? -1 : STDIN_FILENO;
    record.input = plan.input >= 0;
    record.terminal = ::isatty(STDERR_FILENO) == 1;
    return plan;
  }

  Result<void> take_places(LaunchPlan& plan) {
    std::vector<std::string> hosts = TRY(places());
    if (nodes_ > hosts.size())
      return invalid(fmt::format("--nodes: {}, but there are {} hosts", nodes_, hosts.size()));
    if (nodes_ > 0) hosts.resize(nodes_);
    plan.record.rank = 0;
    plan.record.size = static_cast<std::uint32_t>(hosts.size());
    for (const std::string& each : hosts) plan.record.hosts.append(each);
    plan.leader = hosts[0];
    if (local_ > 0) return {};
    plan.record.agent = agent_.empty() ? launch::ssh_agent() : std::vector<std::string>{agent_};
    plan.record.agent.insert(plan.record.agent.end(), agent_arguments_.begin(), agent_arguments_.end());
    return {};
  }

  CLI::App* verb_ = nullptr;
  std::string hosts_;
  std::string hostfile_;
  std::uint32_t local_ = 0;
  bool srun_ = false;
  std::uint32_t nodes_ = 0;
  std::string jobspec_;
  std::string resources_;
  std::string notify_;
  std::vector<std::string> options_;
  ExitOptions exits_;
  std::string agent_;
  std::vector<std::string> agent_arguments_;
  std::vector<std::string> srun_arguments_;
  std::string shell_;
  std::vector<std::string> shell_options_;
  std::uint32_t arity_ = group::Membership::kDefaultArity;
  double timeout_ = 30;
  bool verbose_ = false;
};

}  // namespace

VerbPtr make_launch() { return std::make_unique<Launch>(); }

}  // namespace nacre::front
