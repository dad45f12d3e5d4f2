// SPDX-License-Identifier: Apache-2.0
#include "task/failure.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/text.hpp"
#include "task/limits.hpp"
#include "task/memory_policy.hpp"

namespace nacre::task {
namespace {

// execve(2), "Limits on size of arguments and environment".
constexpr std::size_t kMaxString = std::size_t{128} << 10;  // bytes of one string with its NUL
constexpr std::size_t kMinTotal = std::size_t{128} << 10;   // bytes of all strings and the pointers to them
constexpr std::size_t kMaxTotal = std::size_t{6} << 20;
constexpr std::size_t kMostPath = 400;  // bytes of PATH in a message

// "RLIMIT_NOFILE".
std::string limit_macro(int resource) {
  auto name = limit_name(resource);
  if (!name) return fmt::format("resource limit {}", resource);
  std::string out = "RLIMIT_";
  for (char letter : *name) out += static_cast<char>(letter - 'a' + 'A');
  return out;
}

// How many bytes the kernel accepts in all, with the stack limit that the child had.
std::size_t total_limit(const ChildSetup& setup) {
  rlimit stack{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(RLIMIT_STACK, &stack);
  for (const ChildSetup::Limit& limit : setup.limits) {
    if (limit.resource == RLIMIT_STACK) stack = limit.value;
  }
  return std::clamp<std::size_t>(stack.rlim_cur / 4, kMinTotal, kMaxTotal);
}

std::string too_long(const Command& command) {
  std::size_t arguments = 0;
  for (std::size_t i = 0; i < command.argv.size(); ++i) {
    std::size_t size = command.argv[i].size() + 1;
    if (size > kMaxString) {
      return fmt::format("argument {} has {} bytes, of at most {}", i, size - 1, kMaxString - 1);
    }
    arguments += size + sizeof(char*);
  }
  std::size_t environment = 0;
  for (const auto& [name, value] : command.env.all()) {
    std::size_t size = name.size() + 1 + value.size() + 1;
    if (size > kMaxString) {
      return fmt::format("{} in the environment has {} bytes, of at most {}", in_quotes(name), size - 1,
                         kMaxString - 1);
    }
    environment += size + sizeof(char*);
  }
  return fmt::format(
      "the arguments take {} bytes and the environment {}, of at most {} (a quarter of ulimit -s, up to {})",
      arguments, environment, total_limit(command.setup), kMaxTotal);
}

// Whether the command's file exists, so that its interpreter or dynamic loader is what cannot be found.
bool lacks_interpreter(const Command& command) {
  std::string path = command.argv.front();
  if (path.find('/') == std::string::npos) return false;
  if (path.front() != '/' && command.setup.cwd) path = *command.setup.cwd + "/" + path;
  return ::access(path.c_str(), X_OK) == 0;
}

// Of a name without a slash.
std::string where_it_was_looked_for(const Command& command) {
  auto path = command.env.get("PATH");
  std::string folders(path.value_or(kDefaultPath).substr(0, kMostPath));
  if (path && path->size() > kMostPath) folders += "...";
  return path ? fmt::format(" (PATH: {})", folders) : fmt::format(" (PATH is not set, so in {})", folders);
}

// Of a name without a slash: the working directory is not looked in.
std::string lies_here(const Command& command) {
  const std::string& name = command.argv.front();
  const std::string path = command.setup.cwd.value_or(".") + '/' + name;
  struct stat status {};
  bool is_program =
      ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  return is_program ? fmt::format("; did you mean ./{}?", name) : "";
}

Error exec_error(const Command& command, int code) {
  Error error = system_error(code, command.argv.front());
  bool is_name = !command.argv.front().empty() && command.argv.front().find('/') == std::string::npos;
  if (code == ENOENT && is_name) error.message += where_it_was_looked_for(command) + lies_here(command);
  if (code == E2BIG) error.message += ": " + too_long(command);
  if (code == ENOENT && lacks_interpreter(command)) {
    error.message += " (the file is there, but not the interpreter or loader that it names)";
  }
  return error;
}

Error memory_error(const MemoryPolicy& policy, int code) {
  Error error = system_error(code, "cannot set the memory policy to " + memory_policy_text(policy));
  if (code == EINVAL) error.message += " (is it one of Mems_allowed_list in /proc/self/status?)";
  if (code == ENOSYS) error.message += " (this kernel has no NUMA)";
  if (code == EPERM) error.message += " (a container may forbid it)";
  return error;
}

}  // namespace

Error describe(const Command& command, const Failure& failure) {
  const ChildSetup& setup = command.setup;
  auto cannot = [&](const std::string& what) { return system_error(failure.code, "cannot " + what); };
  switch (failure.step) {
    case Step::session: return cannot("lead a session");
    case Step::process_group: return cannot("make a process group");
    case Step::oom: return cannot("set the OOM score to " + setup.oom_score_adj.value_or(""));
    case Step::scheduler: return cannot("set the scheduling policy");
    case Step::affinity: return cannot("bind to cpus");
    case Step::memory: return memory_error(*setup.memory, failure.code);
    case Step::directory: return cannot("change to directory " + setup.cwd.value_or(""));
    case Step::descriptors: return cannot(fmt::format("set up descriptor {}", failure.detail));
    case Step::terminal: return cannot("take its standard input as its controlling terminal");
    case Step::limit: return cannot("set " + limit_macro(failure.detail));
    case Step::hook: return Error{failure.code, "a task.exec plugin failed"};
    case Step::trace: return cannot("be traced");
    case Step::none:
    case Step::exec: break;
  }
  return exec_error(command, failure.code);
}

Error fork_error(int code) {
  Error error = system_error(code, "cannot start more processes");
  if (code != EAGAIN) return error;
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(RLIMIT_NPROC, &limit);
  std::string most = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
  error.message += fmt::format(" (limit: ulimit -u {}, or the cgroup's pids.max)", most);
  return error;
}

}  // namespace nacre::task
