// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/exec_targets.hpp"

#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
#include "value/hostlist.hpp"

namespace nacre::plugins {
namespace {

Result<value::Idset> ids_of(const JsonAt& at, std::uint64_t count, const char* what) {
  auto ids = value::Idset::parse(TRY(at.string()));
  if (!ids) return at.error(ids.error().message);
  if (ids->empty()) return at.error(fmt::format("names no {}", what));
  if (*ids->last() >= count)
    return at.error(fmt::format("no {} {}: the job has {}", what, *ids->last(),
                                count == 1 ? "only 0" : fmt::format("0-{}", count - 1)));
  return ids;
}

// A short name means the host of that name in any domain.
bool is_named(std::string_view host, std::string_view name) {
  if (host == name) return true;
  return name.find('.') == std::string_view::npos && host.substr(0, host.find('.')) == name;
}

Result<value::Idset> shells_on(const JsonAt& at, const job::Job& job) {
  auto list = value::Hostlist::parse(TRY(at.string()));
  if (!list) return at.error(list.error().message);
  if (list->empty()) return at.error("names no host");
  value::Idset out;
  const auto& nodes = job.resources.nodes;
  for (const std::string& name : list->names()) {
    bool is_there = false;
    for (std::uint32_t shell = 0; shell < nodes.size(); ++shell) {
      if (!is_named(nodes[shell].hostname, name)) continue;
      is_there = true;
      out.insert(shell);
    }
    if (!is_there) {
      std::string hosts;
      for (const auto& node : nodes) {
        if (&node == nodes.data() || node.hostname != (&node - 1)->hostname)
          hosts += (hosts.empty() ? "" : ",") + node.hostname;
      }
      auto all = value::Hostlist::parse(hosts);
      return at.error(
          fmt::format("the job does not run on {}: it has {:.300}", in_quotes(name), all ? all->str() : hosts));
    }
  }
  return out;
}

}  // namespace

std::string host_of(const job::Job& job, std::uint32_t shell) {
  const auto& nodes = job.resources.nodes;
  if (shell < nodes.size() && !nodes[shell].hostname.empty()) return nodes[shell].hostname;
  return fmt::format("shell {}", shell);
}

Result<ExecTargets> ExecTargets::read(const JsonAt& request, const job::Job& job) {
  ExecTargets out;
  value::Idset shells = job.shells_that_came();
  auto ranks = TRY(request.find("ranks"));
  auto named = TRY(request.find("shells"));
  auto hosts = TRY(request.find("hosts"));
  out.is_all = !ranks && !named && !hosts;
  if (named) shells = TRY(ids_of(*named, job.shells(), "shell"));
  if (hosts) shells = shells & TRY(shells_on(*hosts, job));
  if (auto exclude = TRY(request.find("exclude"))) shells = shells - TRY(shells_on(*exclude, job));
  if (ranks) {
    value::Idset wanted = TRY(ids_of(*ranks, job.tasks(), "rank"));
    for (std::uint32_t shell : shells.ids()) {
      value::Idset here = job.taskmap.ranks_on(shell) & wanted;
      if (!here.empty()) out.shares.emplace(shell, std::move(here));
    }
  } else {
    for (std::uint32_t shell : shells.ids()) out.shares.emplace(shell, value::Idset());
  }
  if (out.shares.empty()) return request.error("nothing of the job is in all that is asked for");
  return out;
}

}  // namespace nacre::plugins
