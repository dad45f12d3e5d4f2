// SPDX-License-Identifier: Apache-2.0
#include "front/job_verb.hpp"

#include <unistd.h>

#include <csignal>

#include <fmt/format.h>

#include "base/print.hpp"
#include "base/text.hpp"
#include "base/variable.hpp"
#include "cli/command_line.hpp"
#include "event/clock.hpp"
#include "value/hostlist.hpp"
#include "value/wait_status.hpp"

namespace nacre::front {
namespace {

// How long the list may lack the end of a job whose leader cannot be reached
constexpr event::Seconds kMostForEntry{5};
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

// A refusal of the leader may name what was asked, as the beginning of the line that is printed does.
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

Result<record::Listed> JobVerb::running_job() {
  record::Listed out = TRY(job());
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

Result<record::Listed> JobVerb::end_in_list(const record::Listed& job, const std::optional<Error>& why) {
  event::Seconds until = event::clock_now() + kMostForEntry;
  for (;;) {
    read_again();
    auto now = this->job(job.entry.id.f58_plain());
    if (!now || now->entry.ended()) return now;
    if (!why) return now;  // the link has ended: the caller connects again
    if (event::clock_now() >= until) return *why;
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

}  // namespace nacre::front
