// SPDX-License-Identifier: Apache-2.0
//
// Which shell of which job this is, and which others there are, before the shells are linked. nacre-boot(7)
// describes the ways for users.
//
//   standalone  alone
//   pmi         a manager with a PMI-1 server (PMI_FD): the shells' addresses and the leader's secret are its keys
//   pmix        a manager with a PMIx server (PMIX_NAMESPACE, PMIX_RANK): as pmi, by libpmix
//   slurm       a step of Slurm without PMI: one shell a node; the secret from a file or from srun's
//               standard input; ports by agreement (transport/address.hpp)
//   hosts       started by another shell or by `nacre launch`: secret and launch record on standard input
//   flux        the job shell of a Flux instance, `nacre-shell JOBID` with FLUX_URI and FLUX_KVS_NAMESPACE: keys in
//               its store
//   index       one of a group of pods (boot/pod.hpp): the secret from a file, the rest by shell 0 at a known port
//
// automatic takes the first of flux, pmi, pmix, slurm, index and standalone for which the environment has the
// variables.
#pragma once

#include <unistd.h>

#include "base/signals.hpp"
#include "boot/allocation.hpp"
#include "broker/instance.hpp"
#include "group/directory.hpp"
#include "launch/own_sockets.hpp"
#include "launch/record.hpp"

namespace nacre::boot {

struct IndexGroup;

enum class Way { automatic, standalone, pmi, pmix, slurm, hosts, index, flux };

[[nodiscard]] std::string_view way_name(Way way);
Result<Way> parse_way(std::string_view name);  // an error lists the names

struct BootRequest {
  static constexpr double kTimeout = 60;

  Way way = Way::automatic;
  Variables variables;
  std::string version;  // of this program
  std::optional<std::string> secret_file;
  // hosts, index: the launch record, or a descriptor that it is read from.
  std::variant<std::monostate, int, const launch::LaunchRecord*> record;
  std::optional<value::JobId> id;                          // none: the manager's, or a new one
  std::uint32_t arity = group::Membership::kDefaultArity;  // pmi: only shell 0's counts; hosts: the record's counts
  double timeout = kTimeout;                               // seconds for each step that waits for others
  int input = STDIN_FILENO;
};

struct Boot {
  Boot();
  Boot(Boot&&) noexcept;
  Boot& operator=(Boot&&) noexcept;
  ~Boot();

  Way way = Way::standalone;  // not automatic
  std::string how;            // one line: "pmi: PMI_FD is set: rank 1 of 4", and why earlier ways were not taken
  value::JobId id;
  std::optional<group::Membership> membership;  // none: this shell is alone
  std::optional<launch::LaunchRecord> record;   // with hosts, and with slurm under `nacre launch --srun`
  // The stream on what was standard input, if that is the launcher's (there is a `record`); /dev/null has replaced
  // it. For the leader the launcher's records follow on it (launch/stream.hpp).
  UniqueFd launcher;
  std::string launcher_bytes;                  // bytes of the stream that were read already
  std::unique_ptr<EndingSignalsHeld> held;     // index: to be dropped once the shell watches for signals
  std::unique_ptr<broker::Instance> instance;  // flux
  std::unique_ptr<IndexGroup> later;           // index: for those that come once the job runs
};

// May wait; for pmi and slurm it also binds sockets. Has to be called before the loop runs and before there are
// threads. Errors have the variables that are set, and a remedy.
Result<Boot> boot(const BootRequest& request);

// The keys that a manager keeps for the processes that it has started, by any protocol. With them the shells send
// each other:
//
//   nacre.shell  of each shell: its addresses
//   nacre.job    of shell 0: {"version", "protocol", "jobid", "arity", "secret"}
class Keys {
 public:
  virtual ~Keys() = default;
  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t size() const = 0;
  // Values are printable ASCII. All processes can read what was put once all have passed the barrier.
  virtual Result<void> put(std::string_view key, std::string_view value) = 0;
  virtual Result<void> barrier() = 0;
  virtual Result<std::string> get(std::uint32_t owner, std::string_view key) = 0;
  virtual Result<void> finish() = 0;
  // Whether a shell's host name is of use to the others.
  [[nodiscard]] virtual bool resolves_names() const { return true; }
};

// The whole way, also for a job of one shell. `seen` is the beginning of Boot::how: "pmi: PMI_FD is set".
Result<Boot> boot_by_keys(const BootRequest& request, Keys& keys, Way way, const char* seen);

// The ways of boot.hpp, each in a file of its own.

Result<Boot> boot_by_pmi(const BootRequest& request);
Result<Boot> boot_by_pmix(const BootRequest& request);
Result<Boot> boot_by_slurm(const BootRequest& request);
Result<Boot> boot_by_record(const BootRequest& request);
Result<Boot> boot_by_index(const BootRequest& request);
Result<Boot> boot_by_flux(const BootRequest& request);
Result<Boot> boot_by_own_record(
    const BootRequest& request);  // nacre run has become this shell, the only one of its job

// ---- shared by the ways

// The place of a shell that has a launch record with its rank, and listens on `own`.
Result<group::Membership> membership_of(const BootRequest& request, const launch::LaunchRecord& record,
                                        transport::Secret secret, launch::OwnSockets own);

[[nodiscard]] inline bool has_own_record(const BootRequest& request) { return request.record.index() != 0; }
// The request's launch record; a descriptor that it was read from is closed, so that no task gets it.
Result<launch::LaunchRecord> own_record(const BootRequest& request);

// The number in a variable, up to `most`. Errors: the variable is not set, or is no such number.
Result<std::uint64_t> number_of(const Variables& variables, const char* name, std::uint64_t most);
// "SLURM_PROCID=3, SLURM_STEP_ID=0", or "none of SLURM_PROCID and SLURM_STEP_ID".
[[nodiscard]] std::string seen_of(const Variables& variables, std::initializer_list<const char*> names);
// The folder for the shells' Unix sockets.
[[nodiscard]] std::string temporary_directory(const Variables& variables);
// The ranks above this one, the parent first.
[[nodiscard]] std::vector<group::Rank> ancestors_of(group::Rank rank, std::uint32_t arity);
Result<void> check_arity(std::uint32_t arity);

}  // namespace nacre::boot
