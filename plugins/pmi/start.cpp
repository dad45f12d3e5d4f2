// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/start.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "value/idset.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kProcessMap = "PMI_process_mapping";
constexpr std::size_t kMaxProcessMap = 672;  // the longest that fits into the line that MPICH 4.0's get reads

// Those that have tasks, or were to have some; the place of one that is lost goes to those that have its tasks.
value::Idset shells_of_tasks(const job::Job& job) {
  value::Idset out = value::Idset::range(0, job.nodes() - 1);
  for (const job::Move& each : job.moves) {
    out.remove(each.from);
    out.insert(each.to);
  }
  return out;
}

// MPICH takes the largest number of a node for how many there are, and where these are as many as processes it
// expects no two on one node; so nodes without tasks have no number.
value::Taskmap without_gaps(const value::Taskmap& map) {
  std::vector<bool> is_used(map.nodes());
  for (const value::Taskmap::Block& each : map.blocks())
    std::fill_n(is_used.begin() + each.nodeid, each.nnodes, true);
  if (std::find(is_used.begin(), is_used.end(), false) == is_used.end()) return map;
  std::vector<std::uint32_t> node_of(map.tasks());
  std::uint32_t number = 0;
  for (std::uint32_t node = 0; node < map.nodes(); ++node) {
    if (!is_used[node]) continue;
    for (value::Idset::Id rank : map.ranks_on(node).ids()) node_of[rank] = number;
    ++number;
  }
  return value::Taskmap::of(node_of);
}

std::optional<std::uint32_t> universe_of(const job::Job& job) {
  std::uint64_t room = 0;
  for (std::uint32_t shell : shells_of_tasks(job).ids())
    room += job.resources.nodes[shell].all_cores().size() / job.spec.cores_per_slot;
  return room > job.tasks() ? std::optional(static_cast<std::uint32_t>(room)) : std::nullopt;
}

}  // namespace

PmiStart PmiStart::of_job(const plugin::Host& host) {
  const job::Job& job = host.job();
  return {1, job.taskmap, !host.joined_late(), job.shells() - 1, universe_of(job)};
}

PmiStart PmiStart::again(const plugin::Host& host) {
  const job::Job& job = host.job();
  const std::uint32_t last = host.last_with_tasks();
  return {job.restarts + 1, job.taskmap, job.shell_rank <= last, last, universe_of(job)};
}

std::vector<std::uint32_t> PmiStart::ranks_here(plugin::Host& host) const {
  std::vector<std::uint32_t> out;
  const value::Idset ranks = taskmap.ranks_on(host.job().shell_rank);
  for (const auto& task : host.tasks()) {
    if (!takes_part || !ranks.contains(task->rank())) break;  // what has come later is behind the others
    out.push_back(task->rank());
  }
  return out;
}

pmi::ClientGroup PmiStart::group(plugin::Host& host, const PmiOptions& options, pmi::Quota& quota) const {
  pmi::ClientGroup out;
  out.kvsname = fmt::format("nacre_{}", host.job().id.value());
  if (number > 1) out.kvsname += fmt::format("_{}", number);
  out.size = static_cast<std::uint32_t>(taskmap.tasks());
  out.ranks = ranks_here(host);
  out.universe_size = universe_size;
  out.pmi1 = options.simple;
  out.pmi2 = options.pmi2;
  out.quota = &quota;
  return out;
}

PmiExchange::Barriers PmiStart::barriers() const {
  return {number == 1 ? "pmi" : fmt::format("pmi.{}", number), last, number};
}

// MPICH 4.0 aborts if the map exists and is empty, and fails an assertion if a line is too long for it.
void set_process_map(pmi::Server& server, const value::Taskmap& map, const PmiOptions& options) {
  std::string text = map.pmi();
  if (!options.nomap && !text.empty() && text.size() <= kMaxProcessMap) server.set_attribute(kProcessMap, text);
}

void set_universe(pmi::Server& server, const std::optional<std::uint32_t>& size) {
  if (size) server.set_attribute("universeSize", fmt::format_int(*size).str());
}

void PmiStart::set_attributes(pmi::Server& server, const PmiOptions& options) const {
  set_process_map(server, without_gaps(taskmap), options);
  std::string text = taskmap.str();
  if (text.size() < pmi::kMaxValue) server.set_attribute("flux.taskmap", text);
  server.set_attribute("flux.instance-level", "0");
  set_universe(server, universe_size);
}

}  // namespace nacre::plugins
