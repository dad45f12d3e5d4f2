// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawned_group.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::plugins {
namespace {

// The reserved keys of MPI_Comm_spawn that this uses; others are ignored, as MPI allows.
const std::string* find_info(const pmi::SpawnProgram& program, std::string_view key) {
  auto found =
      std::find_if(program.info.begin(), program.info.end(), [&](const auto& e) { return e.first == key; });
  return found != program.info.end() ? &found->second : nullptr;
}

// "host": where to run; only this node is possible.
Result<void> check_host(const pmi::SpawnProgram& program, const std::string& here) {
  for (std::string_view key : {"host", "hosts"}) {
    const std::string* hosts = find_info(program, key);
    if (hosts == nullptr) continue;
    for (std::string_view host : split(*hosts, ',')) {
      if (host = trim(host); host == here || host == "localhost") continue;
      return invalid(
          fmt::format("info key {}: {} is another host, and what a task spawns runs on that of the task, {}", key,
                      in_quotes(host), here));
    }
  }
  return {};
}

// "path": directories that are searched before PATH for a program without a slash.
std::string executable_of(const pmi::SpawnProgram& program) {
  const std::string& name = program.argv.front();
  const std::string* path = find_info(program, "path");
  if (path == nullptr || name.find('/') != std::string::npos) return name;
  for (std::string_view directory : split(*path, ':')) {
    std::string file = fmt::format("{}/{}", directory, name);
    if (!directory.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return name;
}

}  // namespace

SpawnedGroup::SpawnedGroup(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options,
                           pmi::Names& names, const pmi::Spawn& spawn, Origin origin, Callbacks on)
    : host_(host),
      plugin_(plugin),
      origin_(std::move(origin)),
      callbacks_(std::move(on)),
      departures_(host, plugin, options, *this),
      group_(host.loop(), members(spawn, origin_, options), names, exchange_, callbacks()) {
  departures_.attach(group_);
  for (const auto& [key, value] : spawn.preput) group_.server().set_attribute(key, value);
  if (!options.nomap) {
    group_.server().set_attribute("PMI_process_mapping", fmt::format("(vector,(0,1,{}))", spawn.processes()));
  }
}

pmi::ClientGroup SpawnedGroup::members(const pmi::Spawn& spawn, const Origin& origin, const PmiOptions& options) {
  pmi::ClientGroup out;
  out.kvsname = origin.kvsname;
  out.spawner = origin.spawner;
  out.size = spawn.processes();
  out.universe_size = origin.universe_size;
  out.quota = origin.quota;
  out.pmi1 = options.simple;
  out.pmi2 = options.pmi2;
  for (std::uint32_t rank = 0; rank < out.size; ++rank) out.ranks.push_back(rank);
  for (std::uint32_t program = 0; program < spawn.programs.size(); ++program) {
    out.appnums.insert(out.appnums.end(), spawn.programs[program].processes, program);
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
  for (const pmi::SpawnProgram& program : spawn.programs) {
    CHECK_OK(check_host(program, host_.job().node().hostname));
    executables.push_back(executable_of(program));
  }
  for (std::size_t i = 0; i < spawn.programs.size(); ++i) {
    for (std::uint32_t n = 0; n < spawn.programs[i].processes; ++n) {
      Result<void> started = start_one(spawn.programs[i], executables[i]);
      if (started) continue;
      cancelled_ = true;
      signal(SIGKILL);
      return started;
    }
  }
  return {};
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
  if (const std::string* directory = find_info(program, "wdir")) command.setup.cwd = *directory;
  // It has a task's limits, but not its cpus, which belong to one task only.
  const task::ChildSetup& model = host_.tasks().front()->command().setup;
  command.setup.ends_with_parent = model.ends_with_parent;
  command.setup.limits = model.limits;
  command.setup.oom_score_adj = model.oom_score_adj;
  command.setup.scheduler = model.scheduler;
  command.setup.new_session = model.new_session;
  command.setup.fds = {{STDOUT_FILENO, out.get()}, {STDERR_FILENO, err.get()}};
  int target = command.setup.unused_target();
  command.setup.fds.push_back({target, end.get()});
  auto set = [&](const char* name, std::uint64_t value) { command.env.set(name, fmt::format_int(value).str()); };
  set("PMI_FD", static_cast<std::uint64_t>(target));
  set("PMI_RANK", client);
  set("PMI_SIZE", group_.server().group().size);
  set("PMI_SPAWNED", 1);
  set("MPI_LOCALRANKID", client);
  set("MPI_LOCALNRANKS", group_.server().group().size);
  task::Subprocess::Callbacks on;
  on.on_exit = [this, client] { exited(client); };
  on.on_complete = [this] {
    if (running_ == 0) callbacks_.on_over();
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

void SpawnedGroup::signal(int signum) {
  for (std::uint32_t client = 0; client < processes_.size(); ++client) kill(client, signum);
}

std::string SpawnedGroup::name_of(std::uint32_t client) const {
  return fmt::format("rank {} of spawn {}{}", client, origin_.number, host_.job().node().on());
}

bool SpawnedGroup::runs(std::uint32_t client) const { return !processes_[client]->exited(); }

void SpawnedGroup::kill(std::uint32_t client, int signum) {
  if (!runs(client)) return;
  Result<void> sent = processes_[client]->kill(signum);
  if (!sent) log(host_, plugin_, Level::debug, "{}: {}", name_of(client), sent.error().message);
}

}  // namespace nacre::plugins
