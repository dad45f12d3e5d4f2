// SPDX-License-Identifier: Apache-2.0
//
// What the verbs about jobs that run, or have run, have in common: JOB, --json, -q, --via, -v.
#pragma once

#include <sys/types.h>

#include "cli/verbs.hpp"
#include "control/client.hpp"
#include "record/places.hpp"

namespace nacre::front {

// How a job's leader is reached: through its socket if it is on this host; else through a program on its host that
// copies the bytes (`nacre control --bridge ID`). The first way that can be used is taken:
//
//   unix   the leader is on this host
//   srun   a step of Slurm
//   flux   a job of Flux
//   ssh    any other
enum class Via { unix_socket, srun, flux, ssh };
[[nodiscard]] std::string_view via_name(Via via);
Result<Via> parse_via(const std::string& name);

struct Reach {
  std::optional<Via> only;  // none: the first that can be used
  bool verbose = false;     // print to standard error which way is taken
};

// The ways that can be used for this job, in order. `here`: where this process is.
[[nodiscard]] std::vector<Via> ways_to(const record::JobEntry& entry, const record::ProcessPlace& here);
// The command line that starts the bridge.
Result<std::vector<std::string>> bridge_command(Via via, const record::JobEntry& entry,
                                                const std::string& directory);

// The command line, up to the program, by which srun runs a program on this host of a Slurm allocation, with its
// standard streams.
[[nodiscard]] std::vector<std::string> srun_agent(const std::string& allocation, const std::string& host);

struct ProgramStreams {
  int in = -1, out = -1;  // < 0: nothing
  bool quiet = false;     // what the bridge prints as errors is dropped
};

// Starts a program that is looked for in PATH; the caller waits for its end.
Result<pid_t> start_program(const std::vector<std::string>& words, const ProgramStreams& streams);

// Starts a bridge by these words, and greets the leader over it. What the bridge prints itself is dropped if
// `quiet`.
Result<control::Client> start_bridge(const std::vector<std::string>& words, event::Seconds answer_time,
                                     bool quiet = false);

// `directory`: where the entry was found. Errors name the job, and its leader's process and host. ESTALE: the
// leader has gone.
Result<control::Client> reach(const record::JobEntry& entry, const std::string& directory, const Reach& how);

class JobVerb : public cli::Verb {
 public:
  Result<int> run() override;

 protected:
  enum class Jobs {
    one,    // by default the only running job: for verbs that only look
    named,  // a job has to be named, if only as `last`: for verbs that end tasks
    several,
    none
  };

  void add_usual(cli::CommandLine& verb, Jobs jobs);  // has to be the first
  void add_reach();
  virtual Result<int> run_verb() = 0;
  [[nodiscard]] Result<void> check_named() const;  // with Jobs::named; an error is a usage error

  // The list of jobs; prints a warning for what could not be read.
  const record::JobList& list();
  void read_again();
  // The job that the user means.
  Result<record::Listed> job();
  Result<record::Listed> job(const std::string& name);
  // The same, for what its leader is to be asked: where that is lost, waits a moment for another one. EAGAIN: none
  // has come.
  Result<record::Listed> led_job();
  Result<record::Listed> running_job();  // the same; ESRCH: it has ended
  Result<control::Client> reach_job(const record::Listed& job);
  // Whether the job may have ended, if this is why its leader cannot be reached.
  [[nodiscard]] static bool may_have_ended(const Error& why);
  // Why an order has no answer. If its link has ended, and another shell may lead by now, the text says what
  // becomes of the order.
  [[nodiscard]] static Error order_lost(const record::Listed& job, Error why, std::string_view what);
  // The value of --signal, a name or a number.
  static Result<int> signal_of(const std::string& text);
  // The value of `option`, an idset of at least one `what`.
  static Result<value::Idset> idset_of(const char* option, const std::string& text, const char* what);
  // The value of `option`, a hostlist that names one at least, as text.
  static Result<std::string> hosts_of(const char* option, const std::string& text);
  // Prints the answer of a leader that was asked to change its job's shells: the hosts that it names, or else the
  // shells, in the member `shells`; with --json all of it.
  void print_changed(const record::Listed& job, const Json& answer, const char* shells) const;
  // `why` the link has ended, or could not be made. Returns the job's entry in the list, once the entry has the
  // job's end.
  Result<record::Listed> end_in_list(const record::Listed& job, const std::optional<Error>& why);

  cli::CommandLine* verb_ = nullptr;
  std::vector<std::string> names_;
  bool json_ = false;
  bool quiet_ = false;

 private:
  [[nodiscard]] Error without_verb(Error why) const;
  [[nodiscard]] bool may_be_led(const Result<record::Listed>& job, bool is_noted);

  std::optional<record::JobList> list_;
  std::string via_;
  bool verbose_ = false;
};

}  // namespace nacre::front
