// SPDX-License-Identifier: Apache-2.0

#include "boot/boot.hpp"
#include "boot/pmix_keys.hpp"

namespace nacre::boot {
namespace {

constexpr std::initializer_list<const char*> kPmixVariables = {"PMIX_NAMESPACE",   "PMIX_RANK", "PMIX_SERVER_URI41",
                                                               "PMIX_SERVER_URI4", "PMI_FD",    "SLURM_PROCID"};

Error with_remedy(const BootRequest& request, const Error& why) {
  return Error{
      why.code,
      fmt::format("--boot=pmix: {} (seen: {}); a manager with a PMIx server has to start this shell, as PRRTE, "
                  "Open MPI's mpirun and `srun --mpi=pmix` do; --standalone needs none",
                  why.message, seen_of(request.variables, kPmixVariables))};
}

}  // namespace

Result<Boot> boot_by_pmix(const BootRequest& request) {
  for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK"}) {
    // Without these the library would look for any server of the user.
    if (!request.variables(name)) return with_remedy(request, Error{ENOENT, fmt::format("{} is not set", name)});
  }
  auto keys = open_pmix_keys();
  if (!keys) return with_remedy(request, keys.error());
  return boot_by_keys(request, **keys, Way::pmix, "PMIX_NAMESPACE is set");
}

}  // namespace nacre::boot
