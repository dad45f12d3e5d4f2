// SPDX-License-Identifier: Apache-2.0
//
// The session with a manager that has a PMI-1 server on PMI_FD, such as Hydra, Flux, Slurm's mpi/pmi2 and
// nacre-shell itself: it gives the number of shells, this shell's rank, and keys for the shells to exchange. It
// comes before the loop, so its calls wait.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.hpp"
#include "boot/allocation.hpp"
#include "pmi/client.hpp"
#include "value/idset.hpp"

namespace nacre::boot {

class PmiSession {
 public:
  // Seconds that the manager, or in barrier() the slowest shell, may take.
  static constexpr double kTimeout = 60;

  // Takes over the descriptor that the variable PMI_FD names, and sends init. An error names the variable that is
  // missing or wrong, or has the manager's message.
  static Result<PmiSession> open(const Variables& variables, double timeout = kTimeout);

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  // The process that has made the connection, such as Hydra's proxy; none: it is on another host, or this is no
  // socket.
  [[nodiscard]] std::optional<pid_t> server() const;

  // Returns why the barrier can never end, if that is known: then the manager is asked to end all its processes,
  // which may kill this one before it can log more.
  using Doubt = std::function<std::optional<Error>()>;
  static constexpr double kDoubtEach = 0.5;  // seconds of waiting before each call of `doubt`

  Result<void> put(std::string_view key, std::string_view value);
  Result<void> barrier(const Doubt& doubt = {});
  Result<std::string> get(std::string_view key) { return TRY(ask(session_.get(key))).text; }
  Result<void> finalize();

  // Puts a value that may be longer than one key can hold, under KEY.0, KEY.1 and so on. It may have any bytes.
  Result<void> put_long(std::string_view key, std::string_view value);
  Result<std::string> get_long(std::string_view key);

 private:
  PmiSession(UniqueFd fd, std::uint32_t rank, std::uint32_t size, double timeout)
      : fd_(std::move(fd)), rank_(rank), size_(size), timeout_(timeout) {}
  Result<pmi::ClientSession::Reply> ask(const Result<std::string>& request, const Doubt& doubt = {});
  Result<void> send(std::string_view bytes, double until) const;
  Result<void> wait_for_answer(double until, const Doubt& doubt);
  Result<void> wait_for(short events, double until) const;

  UniqueFd fd_;
  std::uint32_t rank_;
  std::uint32_t size_;
  double timeout_;
  pmi::ClientSession session_;
};

// The proxies of Hydra (mpiexec.hydra): one on each host of a job, which starts the shell there. If a proxy ends
// because it could not start its shell, Hydra reports that to no other: the other shells would wait in the PMI
// barrier until their timeout. On mpiexec's own host mpiexec's children show it: each of them is a proxy, or the
// ssh that has started one.

using Words = std::vector<std::string>;  // of a command line

[[nodiscard]] bool is_hydra_proxy(pid_t pid);

// The number of proxies by PMI_process_mapping, "(vector,(FIRST,NODES,PROCESSES),...)". None: it is not of this
// form.
[[nodiscard]] std::optional<std::uint32_t> proxies_in_mapping(std::string_view mapping);

class HydraProxies {
 public:
  static constexpr double kSettled =
      2;  // seconds for which mpiexec's children have to stay the same, as it may still start some

  // The proxies of this job, which the process `mpiexec` has started. `proxy`: the command line of this shell's own
  // proxy.
  HydraProxies(std::uint32_t count, pid_t mpiexec, const Words& proxy);
  // As the constructor; `server` is the process that answers by PMI. None: it is no proxy, or its mpiexec is not on
  // this host.
  static std::optional<HydraProxies> find(pid_t server, std::uint32_t count);

  // A message about the proxies that have ended, if any, with their hosts as far as they are known. `now`: seconds.
  std::optional<std::string> ended(const std::vector<Words>& children, double now);
  std::optional<std::string> look(double now);  // the same, from mpiexec's children

 private:
  std::uint32_t count_;
  pid_t mpiexec_;
  std::string group_;                           // --pgid: spawned processes have another one
  std::map<std::uint32_t, std::string> hosts_;  // of the proxies that were found; "": this host
  value::Idset running_;
  std::optional<double> since_;  // running_ has not changed since
};

}  // namespace nacre::boot
