// SPDX-License-Identifier: Apache-2.0
#include "cli/plugin_verb_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/program_path.hpp"
#include "base/unique_fd.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "task/subprocess.hpp"

namespace nacre::cli {
namespace {

constexpr const char* kShell = "nacre-shell";
constexpr int kKillRounds =
    1000;  // of a millisecond each: a process that survives SIGKILL for longer is left alone
constexpr int kInterrupting[] = {SIGINT, SIGTERM, SIGHUP};

constexpr std::string_view kJobspec = R"({"version": 1,
 "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
 "tasks": [{"command": ["/bin/true"], "slot": "task", "count": {"per_slot": 1}}],
 "attributes": {"system": {"duration": 0, "environment": {"PATH": "/usr/bin:/bin"}}}}
)";
constexpr std::string_view kResources = R"({"version": 1, "execution": {
 "R_lite": [{"rank": "0", "children": {"core": "0"}}], "nodelist": ["localhost"], "starttime": 0, "expiration": 0}}
)";

std::string shell_program() {
  std::string beside = beside_own_program(kShell);
  return ::access(beside.c_str(), X_OK) == 0 ? beside : kShell;
}

task::Command command_of(const ShellRun& run) {
  task::Command command;
  command.argv = {shell_program(), "--standalone"};
  command.argv.insert(command.argv.end(), run.arguments.begin(), run.arguments.end());
  command.env = job::Environment::own();
  for (const auto& [name, value] : run.environment) command.env.set(name, value);
  command.setup.cwd = run.directory;
  command.setup.limits.push_back({RLIMIT_CORE, {0, 0}});
  return command;
}

// Kills all descendants. They may start others meanwhile; this process becomes the parent of those whose parents
// have ended.
void end_descendants(event::Children& children) {
  for (int round = 0; round < kKillRounds; ++round) {
    std::vector<pid_t> left = event::Children::descendants();
    for (pid_t pid : left) ::kill(pid, SIGKILL);
    children.reap();
    if (left.empty()) return;
    ::poll(nullptr, 0, 1);
  }
}

void keep(std::string& kept, task::BufferedStream& stream) {
  for (std::string_view text = stream.read(); !text.empty(); text = stream.read()) {
    kept += text.substr(0, kMaxShellOutput - kept.size());
  }
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::create() {
  const char* base = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/nacre-plugin-XXXXXX", base != nullptr && *base != '\0' ? base : "/tmp");
  if (::mkdtemp(path.data()) == nullptr) return system_error(errno, path);
  return ScratchDirectory(std::filesystem::absolute(path).lexically_normal().string());
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<std::string> ScratchDirectory::write(const std::string& name, std::string_view text) const {
  std::string path = path_ + "/" + name;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return system_error(errno, path);
  if (int failed = write_all(fd.get(), text); failed != 0) return system_error(failed, path);
  return path;
}

Result<std::vector<std::string>> write_smallest_job(const ScratchDirectory& directory) {
  std::string jobspec = TRY(directory.write("jobspec.json", kJobspec));
  std::string resources = TRY(directory.write("R.json", kResources));
  return std::vector<std::string>{"-j", jobspec, "-R", resources};
}

Result<ShellOutcome> run_shell(const ShellRun& run) {
  auto loop = TRY(event::Loop::create());
  auto children = TRY(event::Children::create(*loop, [](const event::ChildExit&) {}));
  CHECK_OK(event::Children::become_subreaper());
  ShellOutcome outcome;
  int interrupted = 0;
  std::vector<event::SignalWatcher> signals;
  for (int signum : kInterrupting) {
    signals.push_back(
        TRY(event::SignalWatcher::create(*loop, signum, [&](int received) { interrupted = received; })));
    signals.back().keeps_running(false);
  }
  auto timer = TRY(event::Timer::create(*loop, [&] { outcome.timed_out = true; }));
  timer.unref();

  std::unique_ptr<task::Subprocess> process;
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [&](const std::string& name) {
    keep(name == "stdout" ? outcome.out : outcome.err, *process->stream(name));
  };
  auto started = task::Subprocess::start(*loop, *children, command_of(run), {}, std::move(callbacks));
  if (!started) return std::move(started).error().error;
  process = *std::move(started);
  if (run.time_limit) timer.start(event::Seconds(*run.time_limit));
  loop->run_until([&] { return process->exited() || outcome.timed_out || interrupted != 0; });
  if (process->exited()) outcome.timed_out = false;
  end_descendants(*children);
  loop->run_until([&] { return process->complete(); });
  if (interrupted != 0) return Error{EINTR, "interrupted by " + value::signal_name(interrupted)};
  outcome.status = process->status();
  return outcome;
}

}  // namespace nacre::cli
