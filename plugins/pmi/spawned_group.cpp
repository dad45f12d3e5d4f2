// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawned_group.hpp"

#include <algorithm>
#include <csignal>
#include <map>

#include <fmt/format.h>

#include "plugins/pmi/spawn_places.hpp"
#include "plugins/pmi/start.hpp"
#include "value/taskmap.hpp"

namespace nacre::plugins {
namespace {

// The shells that have some of them are the nodes, in the order of their first ranks.
value::Taskmap map_of_places(const std::vector<std::uint32_t>& places) {
  std::map<std::uint32_t, std::uint32_t> nodes;
  std::vector<std::uint32_t> node_of;
  for (std::uint32_t shell : places) {
    auto next = static_cast<std::uint32_t>(nodes.size());
    node_of.push_back(nodes.try_emplace(shell, next).first->second);
  }
  return value::Taskmap::of(node_of);
}

}  // namespace

SpawnedGroup::SpawnedGroup(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options,
                           pmi::Names& names, const pmi::Spawn& spawn, Origin origin, Callbacks on)
    : host_(host),
      plugin_(plugin),
      origin_(std::move(origin)),
      callbacks_(std::move(on)),
      departures_(host, plugin, options, *this),
      exchange_(make_exchange(options.max_size)),
      group_(host.loop(), members(spawn, options), names, *exchange_, callbacks()),
      processes_(host, origin_.task, origin_.setup,
                 {[this](std::uint32_t client) { exited(client); }, [this] { finish(); }}) {
  departures_.attach(group_);
  for (const auto& [key, value] : spawn.preput) group_.server().set_attribute(key, value);
  set_process_map(group_.server(), map_of_places(origin_.places), options);
  set_universe(group_.server(), origin_.universe_size);
  if (between_nodes_ != nullptr) departures_.when_lost(callbacks_.on_lost);
}

std::unique_ptr<pmi::KeyExchange> SpawnedGroup::make_exchange(std::uint64_t most) {
  const std::uint32_t own = host_.job().shell_rank;
  const auto& places = origin_.places;
  bool all_here = std::all_of(places.begin(), places.end(), [&](std::uint32_t shell) { return shell == own; });
  if (all_here) return std::make_unique<pmi::NoExchange>();
  auto out = std::make_unique<PmiExchange>(
      host_, most, [this] { departures_.missed_barrier(); },
      [this](const value::Idset& missing) { return departures_.missing_elsewhere(missing); }, origin_.barriers);
  between_nodes_ = out.get();
  return out;
}

pmi::ClientGroup SpawnedGroup::members(const pmi::Spawn& spawn, const PmiOptions& options) const {
  pmi::ClientGroup out;
  out.kvsname = origin_.kvsname;
  out.spawner = origin_.spawner;
  out.size = spawn.processes();
  out.universe_size = origin_.universe_size;
  out.quota = origin_.quota;
  out.pmi1 = options.simple;
  out.pmi2 = options.pmi2;
  for (std::uint32_t rank : ranks_placed_on(origin_.places, host_.job().shell_rank).ids()) {
    out.ranks.push_back(rank);
    out.appnums.push_back(spawn.program_of(rank));
  }
  return out;
}

PmiGroup::Callbacks SpawnedGroup::callbacks() {
  PmiGroup::Callbacks out = departures_.callbacks();
  out.on_spawn = [this](const pmi::SpawnRequest& request) { callbacks_.on_spawn(*this, request); };
  out.on_full = [this](const pmi::Full& full) {
    log(host_, plugin_, Level::warn, "{}", text_of(full, full.client ? name_of(*full.client) : ""));
  };
  out.on_wait = [](bool) {};
  return out;
}

// ---- the start -----------------------------------------------------------------------------

Result<void> SpawnedGroup::start(const pmi::Spawn& spawn) {
  for (std::uint32_t program : group_.server().group().appnums) CHECK_OK(start_one(spawn.programs[program]));
  return {};
}

void SpawnedGroup::cancel() {
  cancelled_ = true;
  departures_.shell_leaves();
  signal(SIGKILL);
  if (running() == 0) finish();
}

Result<void> SpawnedGroup::start_one(const pmi::SpawnProgram& program) {
  const std::uint32_t client = processes_.size();
  UniqueFd end = TRY(group_.open(client));
  CHECK_OK(processes_.start(program, [&](task::Command& command) {
    int target = command.setup.unused_target();
    command.setup.fds.push_back({target, end.get()});
    auto set = [&](const char* name, std::uint64_t value) { command.env.set(name, fmt::format_int(value).str()); };
    set("PMI_FD", static_cast<std::uint64_t>(target));
    set("PMI_RANK", group_.server().group().ranks[client]);
    set("PMI_SIZE", group_.server().group().size);
    set("PMI_SPAWNED", 1);
    set("MPI_LOCALRANKID", client);
    set("MPI_LOCALNRANKS", group_.server().group().ranks.size());
  }));
  return group_.start(client);
}

// ---- the processes ---------------------------------------------------------------------------

void SpawnedGroup::exited(std::uint32_t client) {
  if (cancelled_) return;
  const value::WaitStatus& status = processes_.status(client);
  departures_.exited(client, status);
  const pmi::ClientProgress& last = group_.server().clients()[client];
  bool lost = last.has_joined && last.stage != pmi::ClientStage::finalized;
  if (!lost && !status.success() && !host_.ending()) {
    log(host_, plugin_, Level::warn, "{} {}", name_of(client), status.str());
  }
}

void SpawnedGroup::finish() {
  if (std::exchange(is_over_, true)) return;
  if (between_nodes_ != nullptr) between_nodes_->abstain(cancelled_ ? value::Idset() : departures_.not_finalized());
  callbacks_.on_over();
}

void SpawnedGroup::signal(int signum) {
  for (std::uint32_t client = 0; client < processes_.size(); ++client) kill(client, signum);
}

std::string SpawnedGroup::name_of(std::uint32_t client) const {
  return fmt::format("rank {} of spawn {}{}", group_.server().group().ranks[client], origin_.number,
                     host_.job().node().on());
}

bool SpawnedGroup::is_connected() const {
  const auto& clients = group_.server().clients();
  return std::any_of(clients.begin(), clients.end(),
                     [](const auto& each) { return each.stage == pmi::ClientStage::joined; });
}

void SpawnedGroup::kill(std::uint32_t client, int signum) {
  Result<void> sent = processes_.kill(client, signum);
  if (!sent) log(host_, plugin_, Level::debug, "{}: {}", name_of(client), sent.error().message);
}

}  // namespace nacre::plugins
