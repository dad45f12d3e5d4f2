// SPDX-License-Identifier: Apache-2.0
//
// The hosts on which shells may be started, as this allocation's manager, or the user, has named them.
//
//   Flux            the initial program of an instance that is a job (flux batch, flux alloc), which FLUX_URI and
//                   FLUX_ENCLOSING_ID tell: R of the instance, by its command; a host is there for each broker
//   Slurm           SLURM_JOB_NODELIST, and the slots from SLURM_TASKS_PER_NODE or SLURM_JOB_CPUS_PER_NODE:
//                   "16(x3),8"; the components of a heterogeneous job are SLURM_JOB_NODELIST_HET_GROUP_0 and on,
//                   SLURM_HET_SIZE of them
//   PBS, Torque     PBS_NODEFILE: a file with a host's name on each line, once for each slot
//   LSF             LSB_DJOB_HOSTFILE: the same; else LSB_MCPU_HOSTS: "a 4 b 2"; else LSB_HOSTS: "a a b"
//   OAR             OAR_NODEFILE: as PBS_NODEFILE
//   Grid Engine     PE_HOSTFILE: a file of "host slots queue processors"
//   Cobalt          COBALT_NODEFILE: as PBS_NODEFILE
//   MPIJob          K_MPI_JOB_ROLE=launcher: /etc/mpi/hostfile, in one of the forms of hosts_of_file()
#pragma once

#include "base/result.hpp"

namespace nacre::boot {

struct Allocation {
  static constexpr std::uint32_t kMaxSlots = std::uint32_t{1} << 20;  // of one host
  static constexpr std::size_t kMaxHosts = std::size_t{1} << 20;      // counting each host once
  static constexpr std::size_t kMaxFileSize = std::size_t{64} << 20;  // bytes

  struct Host {
    std::string name;         // as RFC 29 allows
    std::uint32_t slots = 0;  // tasks that it has room for; 0: unknown
    bool operator==(const Host&) const = default;
  };

  std::string source;       // for messages: "SLURM_JOB_NODELIST", "PBS_NODEFILE (/var/spool/pbs/7)"
  std::vector<Host> hosts;  // each once (but see Flux), in the order of their first mention; not empty
  // How many tasks have been asked for: in Slurm SLURM_NTASKS, in Flux execution.nslots of R, otherwise the sum of
  // the slots, where some are given. None: it is open. `tasks_source`: what has it, as `source`.
  std::optional<std::uint32_t> tasks = {};
  std::string tasks_source = {};
  // In a heterogeneous job of Slurm, of which `hosts` are the first component: all of its hosts, as a hostlist.
  std::string all_components = {};
};

// The value of an environment variable.
using Variables = std::function<std::optional<std::string>(const char* name)>;

// From the first manager, in the order above without Flux, whose variables are set; none: there is none. Errors
// name the variable, or the file and the line.
Result<std::optional<Allocation>> allocation_of(const Variables& variables);

// Whether this is an instance of Flux, which then is the innermost allocation.
[[nodiscard]] bool is_flux_allocation(const Variables& variables);
// What prints its R on standard output.
inline constexpr const char* kFluxResources = "flux kvs get resource.R";
Result<Allocation> flux_allocation(std::string_view resources);

// A list that the user has given: "node[0-3],login:4". If a host occurs again its slots are added; without slots
// each time is one, as in a PBS_NODEFILE, also for the other hosts.
Result<Allocation> hosts_of_list(std::string_view list);

// A file that the user has given, read likewise, with a line for each host: "node0", "node0:4" (Hydra) or
// "node0 slots=4 max_slots=8" (Open MPI; max-slots is the same), and comments from '#' on.
Result<Allocation> hosts_of_file(const std::string& path);

}  // namespace nacre::boot
