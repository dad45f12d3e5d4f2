// SPDX-License-Identifier: Apache-2.0
#include "front/job_verb.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "event/clock.hpp"
#include "launch/launcher.hpp"
#include "value/hostlist.hpp"
#include "version.hpp"

namespace nacre::front {
namespace {

// How long the list may lack the end of a job whose leader cannot be reached.
constexpr event::Seconds kMostForEntry{5};
constexpr event::Seconds kMostForLeader{60};  // the same, where another shell may come to lead
constexpr event::Seconds kToBeLed{20};        // for who only asks
constexpr event::Seconds kToBeNoted{1};       // by the guard, that the leader is lost
constexpr useconds_t kLookAgain = 20 * 1000;  // microseconds between two looks at the list

}  // namespace

void JobVerb::add_usual(cli::CommandLine& verb, Jobs jobs) {
  verb_ = &verb;
  verb_->add_flag("--json", json_, "Print lines of JSON");
  verb_->add_flag("-q,--quiet", quiet_, "Print less");
  if (jobs == Jobs::none) return;
  const char* help =
      jobs == Jobs::named
          ? "An id or the beginning of one, a name, last, slurm:ID, HOST/ID"
          : "An id or the beginning of one, a name, last, slurm:ID, HOST/ID (default: the only one that runs)";
  if (jobs == Jobs::several) {
    verb_->add_option("JOB", names_, help)->option_text("...");
    return;
  }
  auto take = [this](const std::string& name) {
    names_ = {name};
    return Result<void>();
  };
  verb_->add_option("JOB", take, help);
}

Result<void> JobVerb::check_named() const {
  if (!names_.empty()) return {};
  return invalid("expected a job: its id, its name, or last for the one that has begun last");
}

void JobVerb::add_reach() {
  verb_->add_option("--via", via_, "Reach the job's leader so: unix, srun, flux or ssh")->option_text("WAY");
  verb_->add_flag("-v,--verbose", verbose_, "Print how it is reached");
}

Result<int> JobVerb::run() {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a link that has ended returns an error instead
  auto code = run_verb();
  if (!code) return without_verb(std::move(code).error());
  return code;
}

// A refusal of the leader may name what was asked, but the beginning of the printed line does so already.
Error JobVerb::without_verb(Error why) const {
  std::string name = verb_->verb() + ": ";
  if (why.message.starts_with(name)) why.message.erase(0, name.size());
  return why;
}

const record::JobList& JobVerb::list() {
  if (!list_) read_again();
  return *list_;
}

void JobVerb::read_again() {
  bool is_first = !list_;
  list_ = record::JobList::read(record::places(own_variable), record::own_witness(), event::wall_clock());
  if (!is_first || quiet_) return;
  for (const std::string& each : list_->warnings) print_err("{}: {}\n", verb_->program(), each);
}

Result<record::Listed> JobVerb::job() {
  if (!names_.empty()) return job(names_[0]);
  return *TRY(list().only_one());
}

Result<record::Listed> JobVerb::job(const std::string& name) { return *TRY(list().find(name)); }

// Whether another leader may still come. Who has just been lost may not have been noted as that yet.
bool JobVerb::may_be_led(const Result<record::Listed>& job, bool is_noted) {
  if (job) return job->state == record::JobState::unled || (!is_noted && job->entry.may_go_on());
  const auto& all = list().jobs;
  return !is_noted && job.error().code == ENOENT &&
         std::any_of(all.begin(), all.end(), [](const auto& each) { return each.entry.may_go_on(); });
}

Result<record::Listed> JobVerb::led_job() {
  const event::Seconds begun = event::clock_now();
  for (;;) {
    const event::Seconds waited = event::clock_now() - begun;
    auto out = job();
    if (!may_be_led(out, waited >= kToBeNoted)) return out;
    if (out && waited >= kToBeLed)
      return Error{EAGAIN, fmt::format("job {} has no leader at the moment: the shell that led it is lost, and no "
                                       "other one leads so far; try again",
                                       out->entry.id.f58_plain())};
    ::usleep(kLookAgain);
    read_again();
  }
}

Result<record::Listed> JobVerb::running_job() {
  record::Listed out = TRY(led_job());
  if (out.entry.ended()) return Error{ESRCH, fmt::format("job {} has ended", out.entry.id.f58_plain())};
  return out;
}

Result<control::Client> JobVerb::reach_job(const record::Listed& job) {
  Reach how;
  if (!via_.empty()) how.only = TRY(parse_via(via_));
  how.verbose = verbose_;
  return reach(job.entry, list().directories[job.place].path(), how);
}

bool JobVerb::may_have_ended(const Error& why) {
  return why.code == ESTALE || why.code == ENOENT || why.code == ECONNREFUSED || why.code == ECONNRESET;
}

Error JobVerb::order_lost(const record::Listed& job, Error why, std::string_view what) {
  if (why.code != ECONNRESET || !job.entry.takes_over) return why;
  return Error{why.code, fmt::format("the link to the shell that led job {} has ended, as it is lost, or cannot be "
                                     "reached: {}; `nacre jobs` tells whether another one leads it",
                                     job.entry.id.f58_plain(), what)};
}

Result<record::Listed> JobVerb::end_in_list(const record::Listed& job, const std::optional<Error>& why) {
  event::Seconds until = event::clock_now() + (job.entry.takes_over ? kMostForLeader : kMostForEntry);
  for (;;) {
    read_again();
    auto now = this->job(job.entry.id.f58_plain());
    if (!now || (now->entry.ended() && !now->entry.may_go_on())) return now;
    const bool is_over = event::clock_now() >= until;
    if (now->entry.pid != job.entry.pid || now->entry.place != job.entry.place) return now;  // another leader
    if (now->entry.ended() && is_over) return now;
    if (!why && !now->entry.ended()) return now;  // the link has ended: the caller connects again
    if (why && is_over) return *why;
    ::usleep(kLookAgain);
  }
}

Result<int> JobVerb::signal_of(const std::string& text) {
  int signum = 0;
  if (auto number = parse_u64(text))
    signum = *number <= static_cast<std::uint64_t>(SIGRTMAX) ? static_cast<int>(*number) : 0;
  else
    signum = value::signal_number(text);
  if (signum > 0) return signum;
  return invalid(fmt::format("--signal: {}: expected the name or the number of a signal", in_quotes(text)));
}

Result<value::Idset> JobVerb::idset_of(const char* option, const std::string& text, const char* what) {
  auto out = TRY(in(option, value::Idset::parse(text)));
  if (out.empty()) return invalid(fmt::format("{}: names no {}", option, what));
  return out;
}

Result<std::string> JobVerb::hosts_of(const char* option, const std::string& text) {
  auto hosts = TRY(in(option, value::Hostlist::parse(text)));
  if (hosts.empty()) return invalid(fmt::format("{}: names no host", option));
  return hosts.str();
}

void JobVerb::print_changed(const record::Listed& job, const Json& answer, const char* shells) const {
  if (json_) {
    Json all = answer;
    all["id"] = job.entry.id.f58_plain();
    return print_out("{}\n", dump_json(all));
  }
  std::string changed = answer.value(shells, ""), hosts = answer.value("hosts", "");
  if (!quiet_ && !changed.empty()) print_out("{}\n", hosts.empty() ? "shell " + changed : hosts);
}

// ---- reach ------------------------------------------------------------------------------

namespace {

constexpr event::Seconds kBridgeTime{30};  // how long the start of the bridge may take, and each answer
constexpr std::array<std::pair<std::string_view, Via>, 4> kVias{
    {{"unix", Via::unix_socket}, {"srun", Via::srun}, {"flux", Via::flux}, {"ssh", Via::ssh}}};

std::string leader_text(const record::JobEntry& entry) {
  return fmt::format("job {}: its leader, process {} on {}", entry.id.f58_plain(), entry.pid, entry.place.host);
}

// Adds to the error what can be found out about a leader on this host.
Error unreached(const record::JobEntry& entry, Error why) {
  bool is_refused = why.code == ECONNREFUSED || why.code == ENOENT || why.code == ECONNRESET;
  if (record::leader_of(entry, record::own_witness()) == record::Leader::gone)
    return Error{ESTALE, fmt::format("{}, has gone", leader_text(entry))};
  auto state = process_state(static_cast<pid_t>(entry.pid));
  bool is_stopped = state && (*state == 'T' || *state == 't');
  if (why.code == ETIMEDOUT && is_stopped)
    why.message += fmt::format(": it has been stopped by a signal; `kill -CONT {}` lets it go on", entry.pid);
  if (is_refused && entry.address.empty()) why.message += "; it has no control socket";
  return in(leader_text(entry), std::move(why));
}

Result<control::Client> reach_by(Via via, const record::JobEntry& entry, const std::string& directory) {
  if (via == Via::unix_socket) {
    auto client = control::Client::dial(entry.address, kVersion);
    if (!client) return unreached(entry, client.error());
    return client;
  }
  auto words = TRY(bridge_command(via, entry, directory));
  auto client = start_bridge(words, kBridgeTime);
  if (!client) return in(fmt::format("{}, by {}", leader_text(entry), via_name(via)), std::move(client).error());
  return client;
}

}  // namespace

std::string_view via_name(Via via) {
  for (const auto& [name, each] : kVias) {
    if (each == via) return name;
  }
  return "?";
}

Result<Via> parse_via(const std::string& name) {
  for (const auto& [each, via] : kVias) {
    if (each == name) return via;
  }
  return invalid(fmt::format("--via: {}: expected unix, srun, flux or ssh", name));
}

std::vector<Via> ways_to(const record::JobEntry& entry, const record::ProcessPlace& here) {
  const record::ProcessPlace& there = entry.place;
  if (there.host == here.host && there.machine == here.machine && there.boot == here.boot)
    return {Via::unix_socket};
  std::vector<Via> out;
  if (entry.manager.kind == "slurm") out.push_back(Via::srun);
  if (entry.manager.kind == "flux") out.push_back(Via::flux);
  out.push_back(Via::ssh);
  return out;
}

std::vector<std::string> srun_agent(const std::string& allocation, const std::string& host) {
  return {"srun",      "--jobid=" + allocation, "--overlap", "-N1", "-n1", "-w", host, "--mpi=none", "--quiet",
          "--input=0", "--unbuffered"};
}

Result<std::vector<std::string>> bridge_command(Via via, const record::JobEntry& entry,
                                                const std::string& directory) {
  std::string id = entry.id.f58_plain();
  std::string own = own_program();
  std::vector<std::string> bridge{own.empty() ? "nacre" : own, "control", "--bridge", id, "--jobs-dir", directory};
  if (entry.place.host.empty() || entry.place.host.front() == '-')
    return invalid(fmt::format("job {}: its host has no name", id));
  std::vector<std::string> out;
  switch (via) {
    case Via::srun:
      if (entry.manager.kind != "slurm" || entry.manager.job.empty())
        return invalid(fmt::format("job {}: is no step of Slurm", id));
      out = srun_agent(entry.manager.job, entry.place.host);
      break;
    case Via::flux:
      if (entry.manager.kind != "flux" || entry.manager.job.empty())
        return invalid(fmt::format("job {}: is no job of Flux", id));
      out = {"flux", "exec", "-j", entry.manager.job, "-r", "0"};
      break;
    default: {
      std::vector<std::string> agent = launch::ssh_agent();
      if (auto other = own_variable("NACRE_AGENT")) agent = {*other};
      return TRY(launch::agent_command(agent, entry.place.host, bridge)).argv;
    }
  }
  out.insert(out.end(), bridge.begin(), bridge.end());
  return out;
}

Result<pid_t> start_program(const std::vector<std::string>& words, const ProgramStreams& streams) {
  std::vector<char*> argv;
  for (const std::string& each : words) argv.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  auto set = [&actions](int from, int to) {
    if (from < 0)
      ::posix_spawn_file_actions_addopen(&actions, to, "/dev/null", O_RDWR, 0);
    else
      ::posix_spawn_file_actions_adddup2(&actions, from, to);
  };
  set(streams.in, STDIN_FILENO);
  set(streams.out, STDOUT_FILENO);
  if (streams.quiet) set(-1, STDERR_FILENO);
  pid_t pid = 0;
  const int code = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return system_error(code, words[0]);
  return pid;
}

Result<control::Client> start_bridge(const std::vector<std::string>& words, event::Seconds answer_time,
                                     bool quiet) {
  static std::vector<pid_t> bridges;  // that may have ended, where one after the other is tried
  std::erase_if(bridges, [](pid_t each) { return ::waitpid(each, nullptr, WNOHANG) != 0; });
  Pipe to = TRY(make_pipe(O_CLOEXEC));
  Pipe from = TRY(make_pipe(O_CLOEXEC));
  bridges.push_back(TRY(start_program(words, {to.read.get(), from.write.get(), quiet})));
  to.read.reset();
  from.write.reset();
  return control::Client::over(std::move(from.read), std::move(to.write), kVersion, answer_time);
}

Result<control::Client> reach(const record::JobEntry& entry, const std::string& directory, const Reach& how) {
  std::vector<Via> ways = how.only ? std::vector{*how.only} : ways_to(entry, record::own_place());
  Error why = invalid("no way");
  for (Via via : ways) {
    bool is_last = via == ways.back();
    if (!is_last && !is_in_path(via_name(via))) continue;
    if (how.verbose) print_err("nacre: job {}: reached by {}\n", entry.id.f58_plain(), via_name(via));
    auto client = reach_by(via, entry, directory);
    if (client) return client;
    why = client.error();
    if (!is_last && how.verbose) print_err("nacre: {}\n", why.message);
  }
  return why;
}

}  // namespace nacre::front
