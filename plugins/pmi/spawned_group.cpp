// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawned_group.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plugins/pmi/spawn_order.hpp"
#include "plugins/pmi/start.hpp"
#include "value/taskmap.hpp"

namespace nacre::plugins {
namespace {

// The keys of MPI_Comm_spawn that have an effect here are "path" and "wdir": where it runs has been decided.
// "path": directories that are searched before PATH for a program without a slash.
std::string executable_of(const pmi::SpawnProgram& program) {
  const std::string& name = program.argv.front();
  const std::string* path = program.find_info("path");
  if (path == nullptr || name.find('/') != std::string::npos) return name;
  for (std::string_view directory : split(*path, ':')) {
    std::string file = fmt::format("{}/{}", directory, name);
    if (!directory.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return name;
}

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
      group_(host.loop(), members(spawn, options), names, *exchange_, callbacks()) {
  departures_.attach(group_);
  for (const auto& [key, value] : spawn.preput) group_.server().set_attribute(key, value);
  set_process_map(group_.server(), map_of_places(origin_.places), options);
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
  std::uint32_t rank = 0;
  for (std::uint32_t program = 0; program < spawn.programs.size(); ++program) {
    for (std::uint32_t n = 0; n < spawn.programs[program].processes; ++n, ++rank) {
      if (origin_.places[rank] != host_.job().shell_rank) continue;
      out.ranks.push_back(rank);
      out.appnums.push_back(program);
    }
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
  std::vector<std::string> executables;
  for (const pmi::SpawnProgram& program : spawn.programs) executables.push_back(executable_of(program));
  for (std::uint32_t program : group_.server().group().appnums) {
    CHECK_OK(start_one(spawn.programs[program], executables[program]));
  }
  return {};
}

void SpawnedGroup::cancel() {
  cancelled_ = true;
  departures_.shell_leaves();
  signal(SIGKILL);
  if (running_ == 0) finish();
}

// stdout and stderr. If no plugin answers they are the shell's own.
Result<std::pair<UniqueFd, UniqueFd>> SpawnedGroup::open_output() {
  plugin::Call call("output.open");
  call.in["rank"] = origin_.task;
  TRY(host_.stack().call(call));
  auto end = [&](const char* stream, int own) {
    return UniqueFd(call.out.contains(stream) ? call.out[stream].get<int>() : ::fcntl(own, F_DUPFD_CLOEXEC, 0));
  };
  return std::pair(end("stdout", STDOUT_FILENO), end("stderr", STDERR_FILENO));
}

Result<void> SpawnedGroup::start_one(const pmi::SpawnProgram& program, const std::string& executable) {
  auto client = static_cast<std::uint32_t>(processes_.size());
  UniqueFd end = TRY(group_.open(client));
  auto [out, err] = TRY(open_output());
  task::Command command{program.argv, job::Environment::over(host_.environment()), {}};
  command.argv.front() = executable;
  if (const std::string* directory = program.find_info("wdir")) command.setup.cwd = *directory;
  // It has a task's limits, but not its cpus, which belong to one task only.
  copy_common_setup(host_.tasks().empty() ? origin_.setup : host_.tasks().front()->command().setup, command.setup);
  command.setup.ends_with_parent = true;
  command.setup.fds = {{STDOUT_FILENO, out.get()}, {STDERR_FILENO, err.get()}};
  int target = command.setup.unused_target();
  command.setup.fds.push_back({target, end.get()});
  auto set = [&](const char* name, std::uint64_t value) { command.env.set(name, fmt::format_int(value).str()); };
  set("PMI_FD", static_cast<std::uint64_t>(target));
  set("PMI_RANK", group_.server().group().ranks[client]);
  set("PMI_SIZE", group_.server().group().size);
  set("PMI_SPAWNED", 1);
  set("MPI_LOCALRANKID", client);
  set("MPI_LOCALNRANKS", group_.server().group().ranks.size());
  task::Subprocess::Callbacks on;
  on.on_exit = [this, client] { exited(client); };
  on.on_complete = [this] {
    if (running_ == 0) finish();
  };
  auto started =
      task::Subprocess::start(host_.loop(), host_.children(), std::move(command), {.streams = {}}, std::move(on));
  if (!started) return std::move(started).error().error;
  processes_.push_back(*std::move(started));
  ++running_;
  return group_.start(client);
}

// ---- the processes ---------------------------------------------------------------------------

void SpawnedGroup::exited(std::uint32_t client) {
  --running_;
  if (cancelled_) return;
  const value::WaitStatus& status = processes_[client]->status();
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

bool SpawnedGroup::runs(std::uint32_t client) const {
  return client < processes_.size() && !processes_[client]->exited();
}

void SpawnedGroup::kill(std::uint32_t client, int signum) {
  if (!runs(client)) return;
  Result<void> sent = processes_[client]->kill(signum);
  if (!sent) log(host_, plugin_, Level::debug, "{}: {}", name_of(client), sent.error().message);
}

}  // namespace nacre::plugins
