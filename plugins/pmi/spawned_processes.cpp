// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawned_processes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plugins/pmi/spawn_order.hpp"

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

}  // namespace

// stdout and stderr. If no plugin answers they are the shell's own.
Result<std::pair<UniqueFd, UniqueFd>> SpawnedProcesses::open_output() {
  plugin::Call call("output.open");
  call.in["rank"] = task_;
  TRY(host_.stack().call(call));
  auto end = [&](const char* stream, int own) {
    return UniqueFd(call.out.contains(stream) ? call.out[stream].get<int>() : ::fcntl(own, F_DUPFD_CLOEXEC, 0));
  };
  return std::pair(end("stdout", STDOUT_FILENO), end("stderr", STDERR_FILENO));
}

Result<void> SpawnedProcesses::start(const pmi::SpawnProgram& program,
                                     const std::function<void(task::Command&)>& complete) {
  const Index index = size();
  auto [out, err] = TRY(open_output());
  task::Command command{program.argv, job::Environment::over(host_.environment()), {}};
  command.argv.front() = executable_of(program);
  if (const std::string* directory = program.find_info("wdir")) command.setup.cwd = *directory;
  // It has a task's limits, but not its cpus, which belong to one task only.
  copy_common_setup(host_.tasks().empty() ? setup_ : host_.tasks().front()->command().setup, command.setup);
  command.setup.ends_with_parent = true;
  command.setup.fds = {{STDOUT_FILENO, out.get()}, {STDERR_FILENO, err.get()}};
  complete(command);
  task::Subprocess::Callbacks on;
  on.on_exit = [this, index] {
    --running_;
    callbacks_.on_exit(index);
  };
  on.on_complete = [this] {
    if (running_ > 0) return;
    auto none_runs = callbacks_.on_none_runs;
    none_runs();
  };
  auto started =
      task::Subprocess::start(host_.loop(), host_.children(), std::move(command), {.streams = {}}, std::move(on));
  if (!started) return std::move(started).error().error;
  processes_.push_back(*std::move(started));
  ++running_;
  return {};
}

std::vector<SpawnedProcess> SpawnedProcesses::that_run(const std::vector<std::uint32_t>& ranks) const {
  std::vector<SpawnedProcess> out;
  for (Index index = 0; index < size(); ++index) {
    if (runs(index)) out.push_back({ranks[index], pid(index)});
  }
  return out;
}

Result<void> SpawnedProcesses::kill(Index index, int signum) {
  return runs(index) ? processes_[index]->kill(signum) : Result<void>();
}

}  // namespace nacre::plugins
