// SPDX-License-Identifier: Apache-2.0
#include "job/leavers.hpp"

#include <fmt/format.h>

namespace nacre::job {
namespace {

using value::Idset;

Error no_longer(std::string_view what) { return invalid(fmt::format("{} is not of the job any more", what)); }

Result<Idset> named(const Idset& shells, const Job& job, const Idset& gone) {
  Idset unknown = shells - Idset::range(0, job.shells() - 1);
  if (!unknown.empty())
    return invalid(fmt::format("shell {}: the job has shells 0 to {}", unknown.str(), job.shells() - 1));
  Idset left = shells - gone;
  if (left.empty()) return no_longer("shell " + shells.str());
  return left;
}

Result<Idset> on_hosts(const value::Hostlist& hosts, const Job& job, const Idset& gone) {
  Idset out;
  for (const std::string& name : hosts.names()) {
    bool any = false;
    for (std::uint32_t shell = 0; shell < job.shells(); ++shell) {
      if (job.resources.nodes[shell].hostname != name) continue;
      any = true;
      if (!gone.contains(shell)) out.insert(shell);
    }
    if (!any) return invalid(fmt::format("{} is no host of this job", name));
  }
  if (out.empty()) return no_longer(hosts.str());
  return out;
}

Result<Idset> last_ones(std::uint64_t wanted, const Job& job, const Idset& gone) {
  Idset out;
  // Spares have no tasks, and are the last.
  for (bool with_tasks : {false, true}) {
    for (std::uint32_t shell = job.shells() - 1; shell > 0 && out.size() < wanted; --shell) {
      if (!gone.contains(shell) && job.taskmap.ranks_on(shell).empty() != with_tasks) out.insert(shell);
    }
  }
  if (out.size() == wanted) return out;
  return invalid(
      fmt::format("{} shells can leave this job, not {}; shell 0, which leads it, stays", out.size(), wanted));
}

Result<Idset> chosen(const value::ShrinkOrder& order, const Job& job, const Idset& gone, const Idset& leaving) {
  if (order.count > 0) return last_ones(order.count, job, gone | leaving);
  if (!order.hosts.empty()) return on_hosts(order.hosts, job, gone);
  return named(order.shells, job, gone);
}

}  // namespace

Result<Idset> leavers(const value::ShrinkOrder& order, const Job& job, const Idset& gone, const Idset& leaving) {
  Idset out = TRY(chosen(order, job, gone, leaving));
  if (out.contains(0))
    return invalid(fmt::format("shell 0{} leads the job, and cannot leave it", job.resources.nodes[0].on()));
  for (std::uint32_t shell : order.refuse_tasks ? out.ids() : std::vector<Idset::Id>()) {
    Idset there = job.taskmap.ranks_on(shell);
    if (!there.empty()) {
      return Error{EBUSY, fmt::format("shell {}{} has tasks {}; tasks=end ends them", shell,
                                      job.resources.nodes[shell].on(), there.str())};
    }
  }
  return out;
}

value::Hostlist hosts_of(const Idset& shells, const Job& job) {
  value::Hostlist out;
  for (std::uint32_t shell : shells.ids()) {
    if (shell < job.shells() && !job.resources.nodes[shell].hostname.empty())
      out.append(job.resources.nodes[shell].hostname);
  }
  return out;
}

}  // namespace nacre::job
