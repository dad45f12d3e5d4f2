// SPDX-License-Identifier: Apache-2.0
//
// The proxies of Hydra (mpiexec.hydra): one on each host of a job, which starts the shell there. If a proxy ends
// because it could not start its shell, Hydra reports that to no other: the other shells would wait in the PMI
// barrier until their timeout. On mpiexec's own host mpiexec's children show it: each of them is a proxy, or the
// ssh that has started one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::boot {

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
  // The same; `server` is the process that answers by PMI. None: it is no proxy, or its mpiexec is not on this
  // host.
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
