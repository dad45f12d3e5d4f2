// SPDX-License-Identifier: Apache-2.0
//
// The proxies of Hydra (mpiexec.hydra), one on each host of a job, each of which starts the shell there. Hydra reports to nobody that
// a proxy has ended because it could not start its shell: the others would wait in the PMI barrier for as long as they may. On
// mpiexec's own host it is seen by mpiexec's children: each proxy is one of these, or the ssh that has started it is.
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

// How many proxies there are: PMI_process_mapping, "(vector,(FIRST,NODES,PROCESSES),...)". None: it is not that.
[[nodiscard]] std::optional<std::uint32_t> proxies_in_mapping(std::string_view mapping);

class HydraProxies {
 public:
  static constexpr double kSettled =
      2;  // seconds that mpiexec's children have to stay the same: it may still start some

  // Those of this job, whose mpiexec is `mpiexec`. `proxy`: the command line of this shell's own.
  HydraProxies(std::uint32_t count, pid_t mpiexec, const Words& proxy);
  // As above, where `server` is the process that answers by PMI. None: it is no proxy, or its mpiexec is not on this host.
  static std::optional<HydraProxies> find(pid_t server, std::uint32_t count);

  // What there is to say of proxies that have ended, with the hosts as far as they have been seen. `now`: seconds.
  std::optional<std::string> ended(const std::vector<Words>& children, double now);
  std::optional<std::string> look(double now);  // the same, at mpiexec's children

 private:
  std::uint32_t count_;
  pid_t mpiexec_;
  std::string group_;                           // --pgid: processes that were spawned have another
  std::map<std::uint32_t, std::string> hosts_;  // of the proxies that have been seen; "": this one
  value::Idset running_;
  std::optional<double> since_;  // running_ is so
};

}  // namespace nacre::boot
