// SPDX-License-Identifier: Apache-2.0
#include "front/place_options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "boot/allocation.hpp"
#include "boot/identity.hpp"
#include "cli/command_line.hpp"
#include "front/job_request.hpp"
#include "group/first_words.hpp"
#include "io/format.hpp"
#include "launch/launcher.hpp"
#include "version.hpp"

namespace nacre::front {
namespace {

using launch::LaunchRecord;

constexpr double kTimeout = 30;  // seconds

Result<void> check_agent(const std::string& text) {
  const bool has_words = text.find(' ') != std::string::npos && ::access(text.c_str(), F_OK) < 0;
  if (!has_words) return {};
  return invalid(fmt::format("expected a command alone, got {}: --agent-arg=ARG is for each of its arguments",
                             in_quotes(text)));
}

}  // namespace

void PlaceOptions::add_to(cli::CommandLine& verb, const char* elsewhere) {
  verb.begin_group("Hosts", std::string(elsewhere) + "; only one of these");
  verb.add_option("--hosts", hosts_, "These: node[0-3],login")->option_text("LIST");
  verb.add_option("--hostfile", hostfile_, "Those that FILE names, one a line")->option_text("FILE");
  verb.add_number("--local", local_, "N shells on this host", {1, 4096})->option_text("N");
  verb.add_flag("--srun", srun_, "Start them with Slurm's srun");
  verb.at_most_one({"--hosts", "--hostfile", "--local", "--srun"});
  verb.begin_group("");
  verb.add_option("--agent", agent_, "What starts a shell on another host, called as ssh is (default: ssh)")
      ->option_text("CMD")
      ->check(check_agent);
  verb.add_option("--agent-arg", agent_arguments_, "An argument for it, before the host; may be repeated")
      ->option_text("ARG");
  verb.add_option("--srun-arg", srun_arguments_, "An argument for srun; may be repeated")->option_text("ARG");
  verb.add_option("--shell", shell_, "nacre-shell on all hosts (default: the one beside this program)")
      ->option_text("PATH");
  verb.add_number("--arity", arity_, "How many shells each shell starts and serves (default: 16)",
                  {2, LaunchRecord::kMaxArity})
      ->option_text("K");
  verb.add_number("--timeout", timeout_, "Seconds that each shell may take to join (default: 30; of pods 600)",
                  {0.001, LaunchRecord::kMaxTimeout})
      ->option_text("SECONDS");
  verb.add_option("--initrc", initrc_, "All shells load FILE instead of the installed initrc")->option_text("FILE");
  verb.add_option("--eventlog", eventlog_, "Write the job's events (RFC 18) to FILE, of the first shell's host")
      ->option_text("FILE");
  verb.add_option("--record-dir", record_directory_,
                  "Keep the job's record, its events and output, in DIR, of the first shell's host")
      ->option_text("DIR");
  verb.add_flag("-v,--verbose", verbose_, "Print what is started where");
}

void PlaceOptions::add_pretend(cli::CommandLine& verb) {
  verb.add_option("--pretend", pretend_, "On a made-up machine, all on this host: 64x4c2g, nodes, cores and gpus")
      ->option_text("SHAPE")
      ->check(job::MachineShape::parse);
}

Result<void> PlaceOptions::check() const {
  if (pretend_.empty()) return {};
  for (auto [is_given, option] : {std::pair{!hosts_.empty(), "--hosts"},
                                  {!hostfile_.empty(), "--hostfile"},
                                  {local_ > 0, "--local"},
                                  {srun_, "--srun"},
                                  {!srun_arguments_.empty(), "--srun-arg"},
                                  {!agent_.empty(), "--agent"},
                                  {!agent_arguments_.empty(), "--agent-arg"}}) {
    if (is_given)
      return invalid(fmt::format(
          "--pretend and {} exclude each other: a made-up machine is on this host, and nowhere else", option));
  }
  return {};
}

namespace {

void note_tasks(const boot::Allocation& found, Places& out) {
  out.is_named = true;
  out.tasks = found.tasks;
  out.tasks_source = found.tasks_source;
  for (const auto& host : found.hosts) out.slots.push_back(host.slots);
  if (!found.all_components.empty())
    print_err(
        "nacre: this is a heterogeneous job, of which the hosts of the first component are used; all of them, "
        "without "
        "srun: --hosts='{}'\n",
        found.all_components);
}

// The allocation that the instance of Flux has. If its command fails, the command itself prints why.
Result<boot::Allocation> allocation_of_flux() {
  const std::string what = fmt::format("FLUX_URI: {}", boot::kFluxResources);
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(boot::kFluxResources, "re"), ::pclose);
  if (!pipe) return system_error(errno, what);
  std::string text = TRY(read_file(::fileno(pipe.get()), what, boot::Allocation::kMaxFileSize));
  auto end = value::WaitStatus::of_raw(::pclose(pipe.release()));
  if (end.is_exit() && end.exit_code() == 0) return in(what, boot::flux_allocation(text));
  return invalid(
      fmt::format("{}: {}; a job that is not to be in the instance: --local=N or --hosts=LIST, or without "
                  "FLUX_ENCLOSING_ID",
                  what, end.str()));
}

}  // namespace

Result<std::optional<Places>> PlaceOptions::find(bool prefers_srun, bool joins_pods) const {
  Places out;
  if (!pretend_.empty()) {
    out.pretended = TRY(in("--pretend", job::MachineShape::parse(pretend_)));
    out.hosts.assign(out.pretended->nodes, "localhost");
    out.is_local = true;
    return std::optional(std::move(out));
  }
  if (local_ > 0) {
    out.hosts.assign(local_, "localhost");
    out.is_local = out.is_counted = true;
    return std::optional(std::move(out));
  }
  std::optional<boot::Allocation> found;
  if (!hosts_.empty()) found = TRY(in("--hosts", boot::hosts_of_list(hosts_)));
  if (!hostfile_.empty()) found = TRY(in("--hostfile", boot::hosts_of_file(hostfile_)));
  bool is_given = found.has_value();
  if (!is_given && boot::is_flux_allocation(own_variable)) {
    found = TRY(allocation_of_flux());
    out.is_of_flux = true;
  }
  if (!found) found = TRY(boot::allocation_of(own_variable));
  bool is_of_slurm = !is_given && found && found->source.starts_with("SLURM_");
  const bool names_agent = !agent_.empty() || !agent_arguments_.empty();
  if (found) note_tasks(*found, out);
  if (srun_ || (prefers_srun && is_of_slurm && !names_agent && is_in_path("srun"))) {
    out.by_srun = true;
    if (found) out.srun_most = static_cast<std::uint32_t>(found->hosts.size());
    return std::optional(std::move(out));
  }
  if (!found && joins_pods) out.pod = TRY(boot::pod_of(own_variable));
  if (!found && !(out.pod && out.pod->size > 1)) return std::optional<Places>();
  out.is_named = true;
  if (out.pod) return std::optional(std::move(out));
  for (const auto& host : found->hosts) out.hosts.push_back(host.name);
  return std::optional(std::move(out));
}

// Of several values of an option ssh takes the first: what is given comes before what is usual.
std::vector<std::string> PlaceOptions::agent(bool is_of_flux) const {
  const bool is_ssh = agent_ == launch::ssh_agent()[0] || (agent_.empty() && !is_of_flux);
  std::vector<std::string> out = is_ssh            ? launch::ssh_agent()
                                 : !agent_.empty() ? std::vector<std::string>{agent_}
                                                   : launch::flux_agent();
  out.insert(is_ssh ? out.begin() + 1 : out.end(), agent_arguments_.begin(), agent_arguments_.end());
  return out;
}

Result<void> PlaceOptions::put(Places places, std::uint32_t count, LaunchPlan& plan) const {
  LaunchRecord& record = plan.record;
  record.size = count;
  if (places.pretended) {
    record.resources = dump_json(places.pretended->resources(count));
    record.makes_resources = false;
  }
  if (places.pod) {
    plan.in_pod = true;
    record.size = places.pod->size;
  } else if (places.by_srun) {
    plan.srun = srun_arguments_;
  } else {
    places.hosts.resize(count);
    record.rank = 0;
    for (const std::string& each : places.hosts) record.hosts.append(each);
    plan.leader = places.hosts[0];
    if (!places.is_local) record.agent = agent(places.is_of_flux);
  }
  record.version = kVersion;
  record.protocol = group::kProtocol;
  record.job = boot::new_job_id();
  record.arity = arity_;
  record.timeout = timeout_.value_or(places.pod ? places.pod->timeout : kTimeout);
  // A shell on another host, or one that joins later, starts in another directory, so these need absolute paths. A
  // name without a slash is looked for in the PATH of each host.
  bool is_name = shell_.find('/') == std::string::npos;
  plan.has_own_shell = shell_.empty();
  record.shell.push_back(shell_.empty() ? beside_own_program("nacre-shell")
                         : is_name      ? shell_
                                        : std::filesystem::absolute(shell_).native());
  for (auto [option, path] : {std::pair{"--initrc", &initrc_}, std::pair{"--eventlog", &eventlog_},
                              std::pair{"--record-dir", &record_directory_}}) {
    if (!path->empty())
      record.shell.push_back(fmt::format("{}={}", option, std::filesystem::absolute(*path).native()));
  }
  record.shell.insert(record.shell.end(), shell_options_.begin(), shell_options_.end());
  for (const char* name : LaunchRecord::kVariables) {
    if (auto value = own_variable(name); value && io::is_utf8(*value)) record.environment[name] = *std::move(value);
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  record.umask = mask;
  record.terminal = ::isatty(STDERR_FILENO) == 1;
  plan.verbose = verbose_;
  return {};
}

}  // namespace nacre::front
