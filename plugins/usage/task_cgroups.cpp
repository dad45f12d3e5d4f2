// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/task_cgroups.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "task/cgroups.hpp"

namespace nacre::plugins {
namespace {

constexpr mode_t kCgroupMode = 0755;
constexpr int kMostRemovals = 50;  // tries, of 10 ms: what is killed needs a moment to go
constexpr std::chrono::milliseconds kBetweenRemovals{10};

// A cgroup's file takes each command as one write(2). Returns 0 or errno.
int put(const std::string& file, std::string_view text) {
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return fd ? write_all(fd.get(), text) : errno;
}

bool has_word(const std::string& file, std::string_view word) {
  auto text = read_file(file);
  if (!text) return false;
  auto words = split(trim(*text), ' ');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<pid_t> processes_in(const std::string& cgroup) {
  std::vector<pid_t> out;
  auto text = read_file(cgroup + "/cgroup.procs");
  if (!text) return out;
  for (std::string_view line : split(*text, '\n')) {
    if (auto pid = parse_u64(line)) out.push_back(static_cast<pid_t>(*pid));
  }
  return out;
}

// Kills what runs there.
void remove_now(const std::string& cgroup) {
  for (int i = 0; i < kMostRemovals; ++i) {
    if (::rmdir(cgroup.c_str()) == 0 || errno != EBUSY) return;
    static_cast<void>(put(cgroup + "/cgroup.kill", "1"));
    std::this_thread::sleep_for(kBetweenRemovals);
  }
}

std::string how_to_delegate(const std::string& cgroup) {
  return fmt::format(
      "{} is not delegated to user {}: start the job in a cgroup that is, as by systemd-run --user --scope -p "
      "Delegate=yes, or leave out cgroup=task",
      cgroup, ::getuid());
}

}  // namespace

Result<std::unique_ptr<TaskCgroups>> TaskCgroups::make(pid_t shell, const std::string& name,
                                                       const std::string& controller, const std::string& root) {
  auto cgroups = TRY(task::Cgroups::of_process(shell, root));
  auto parent = cgroups.unified_directory();
  if (!parent)
    return Error{
        ENOENT,
        "cgroup=task: the shell is in no cgroup of version 2 that is mounted here: mount cgroup2, as systemd "
        "does, or leave the option out"};
  while (parent->ends_with('/')) parent->pop_back();  // the root
  std::string own = fmt::format("{}/nacre-{}", *parent, name);
  bool is_there = ::access((*parent + "/cgroup.procs").c_str(), W_OK) == 0;
  if (!is_there || (::mkdir(own.c_str(), kCgroupMode) < 0 && errno != EEXIST)) {
    int why = errno;
    return Error{why,
                 fmt::format("cgroup=task: {}: {}", system_error(why, *parent).message, how_to_delegate(*parent))};
  }
  std::unique_ptr<TaskCgroups> out(new TaskCgroups(shell, *std::move(parent), std::move(own), controller));
  if (Result<void> enabled = out->enable(); !enabled) out->without_ = enabled.error().message;
  return out;
}

// The kernel lets a cgroup that is not the root give controllers to those below only if it has no process itself.
Result<void> TaskCgroups::enable() {
  if (!has_word(parent_ + "/cgroup.controllers", controller_))
    return Error{ENOTSUP, fmt::format("{} has no controller {}", parent_, controller_)};
  std::string give = "+" + controller_;
  std::string control = "/cgroup.subtree_control";
  if (!has_word(parent_ + control, controller_)) {
    int failed = put(parent_ + control, give);
    if (failed == EBUSY) {
      CHECK_OK(make_room(parent_));
      failed = put(parent_ + control, give);
    }
    if (failed != 0) return system_error(failed, parent_ + control);
    has_enabled_ = true;
  }
  if (int failed = put(own_ + control, give); failed != 0) return system_error(failed, own_ + control);
  return {};
}

// Moves the shell and its children into a cgroup below, if no other process is in theirs.
Result<void> TaskCgroups::make_room(const std::string& in_use) {
  std::vector<pid_t> processes = processes_in(in_use);
  for (pid_t pid : processes) {
    auto stat = ProcessStat::of(pid);
    if (pid != shell_ && stat && stat->parent != shell_)
      return Error{EBUSY, fmt::format("{} has processes of others, such as {} ({})", in_use, pid, stat->name)};
  }
  std::string shell = own_ + "/shell";
  if (::mkdir(shell.c_str(), kCgroupMode) < 0 && errno != EEXIST) return system_error(errno, shell);
  has_moved_ = true;
  for (pid_t pid : processes) {
    int failed = put(shell + "/cgroup.procs", std::to_string(pid));
    if (failed != 0 && failed != ESRCH) return system_error(failed, shell);
  }
  return {};
}

TaskCgroups::~TaskCgroups() {
  for (const std::string& each : left_) remove_now(each);
  if (has_enabled_) {
    static_cast<void>(put(own_ + "/cgroup.subtree_control", "-" + controller_));
    static_cast<void>(put(parent_ + "/cgroup.subtree_control", "-" + controller_));
  }
  if (has_moved_) {
    std::string shell = own_ + "/shell";
    for (pid_t pid : processes_in(shell)) static_cast<void>(put(parent_ + "/cgroup.procs", std::to_string(pid)));
    ::rmdir(shell.c_str());
  }
  ::rmdir(own_.c_str());
}

std::string TaskCgroups::directory_of(std::uint32_t rank, std::uint32_t attempt) const {
  return fmt::format("{}/task-{}.{}", own_, rank, attempt);
}

Result<void> TaskCgroups::enter(std::uint32_t rank, std::uint32_t attempt) const {
  std::string directory = directory_of(rank, attempt);
  if (::mkdir(directory.c_str(), kCgroupMode) < 0 && errno != EEXIST) return system_error(errno, directory);
  if (int failed = put(directory + "/cgroup.procs", "0"); failed != 0)
    return system_error(failed, directory + "/cgroup.procs");
  return {};
}

std::optional<TaskCgroups::Used> TaskCgroups::take(std::uint32_t rank, std::uint32_t attempt) {
  std::string directory = directory_of(rank, attempt);
  std::string cpu = directory + "/cpu.stat";
  auto user = task::read_keyed_number(cpu, "user_usec ");
  auto system = task::read_keyed_number(cpu, "system_usec ");
  if (!user || !system) return std::nullopt;
  constexpr double kMicrosecond = 1e-6;
  Used out;
  out.user = static_cast<double>(*user) * kMicrosecond;
  out.system = static_cast<double>(*system) * kMicrosecond;
  if (auto peak = task::read_number(directory + "/memory.peak")) out.memory_peak = *peak;
  if (auto kills = task::read_keyed_number(directory + "/memory.events", "oom_kill ")) out.oom_kills = *kills;
  if (::rmdir(directory.c_str()) < 0) left_.push_back(std::move(directory));
  return out;
}

}  // namespace nacre::plugins
