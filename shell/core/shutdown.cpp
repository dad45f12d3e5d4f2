// SPDX-License-Identifier: Apache-2.0
#include "core/shutdown.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "core/unkillable.hpp"
#include "event/process_tree.hpp"

namespace nacre::core {
namespace {

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

std::string name_of(pid_t pid) {
  Result<std::string> comm = read_file(fmt::format("/proc/{}/comm", pid));
  return comm ? std::string(trim(*comm)) : "?";
}

}  // namespace

Result<Shutdown> Shutdown::create(event::Loop& loop, event::Seconds grace, std::function<void(int)> kill_tasks) {
  auto kill = [kill_tasks] { kill_tasks(SIGKILL); };
  return Shutdown(TRY(event::Timer::create(loop, kill)), grace, kill_tasks);
}

bool Shutdown::begin(int signum, std::optional<event::Seconds> grace) {
  if (std::exchange(begun_, true)) return false;
  kill_tasks_(signum);
  kill_tasks_(SIGCONT);  // a stopped task receives the signal only when it runs
  timer_.start_grace(grace.value_or(grace_), event::Seconds(1));
  return true;
}

Stragglers::Stragglers() {
  if (!has_children()) return;
  for (pid_t pid : event::Children::descendants()) before_.insert(pid);
}

// A shell that knows its job's secret has files in /proc which only root can read (transport/secret.hpp), but for
// its name.
bool Stragglers::is_other_shell(pid_t pid) const {
  std::error_code failed;
  auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), failed);
  if (failed == std::errc::permission_denied) return name_of(pid) == name_of(::getpid());
  if (failed || program != std::filesystem::read_symlink("/proc/self/exe", failed)) return false;
  auto environment = read_file(fmt::format("/proc/{}/environ", pid));
  if (!environment) return false;
  auto variables = split(*environment, '\0');
  return std::find(variables.begin(), variables.end(), mark_) == variables.end();
}

std::vector<pid_t> Stragglers::left(Of whose, const event::Children& children) const {
  if (!has_children()) return {};
  std::vector<pid_t> pids =
      whose == Of::all ? event::Children::descendants(before_) : children.unwatched_descendants(before_);
  std::set<pid_t> spared;
  for (pid_t pid : pids) {
    if (mark_.empty() || !is_other_shell(pid)) continue;
    spared.insert(pid);
    for (pid_t below : event::descendants_of(pid, event::best_lookup())) spared.insert(below);
  }
  std::erase_if(pids, [&](pid_t pid) { return spared.contains(pid); });
  return pids;
}

// Whether they have ended, and were reaped if that is this process's to do.
bool Stragglers::all_gone(const std::vector<pid_t>& pids, Of whose, const event::Children& children) const {
  if (!pids.empty()) return false;
  bool others = !before_.empty() || (whose == Of::tasks && children.watched() > 0);
  return others || !has_children();
}

Json Stragglers::facts_of(const std::vector<pid_t>& pids, const std::set<pid_t>& but) {
  constexpr std::string_view kRank = "FLUX_TASK_RANK=";
  Json out = Json::array();
  for (pid_t pid : pids) {
    auto environment = read_file(fmt::format("/proc/{}/environ", pid));
    if (!environment || environment->empty() || but.contains(::getpgid(pid)))
      continue;  // empty: it has ended by now
    Json each{{"pid", pid}, {"name", name_of(pid)}};
    for (std::string_view variable : split(*environment, '\0')) {
      if (!variable.starts_with(kRank)) continue;
      if (auto rank = parse_u64(variable.substr(kRank.size()))) each["rank"] = *rank;
    }
    out.push_back(std::move(each));
  }
  return out;
}

Result<void> Stragglers::end(Of whose, plugin::Host& host, event::Seconds grace,
                             const std::function<void(const std::vector<pid_t>&)>& found) {
  event::Loop& loop = host.loop();
  event::Children& children = host.children();
  Log& log = host.log();
  children.reap();
  std::vector<pid_t> pids = left(whose, children);
  if (pids.empty()) return {};
  if (found) found(pids);
  bool late = false;
  auto timer = TRY(event::Timer::create(loop, [&late] { late = true; }));
  // A process may fork while it is being ended, and a descendant of a straggler is found only while its parent is
  // alive: so look again each time something ends, and from time to time.
  auto poll = TRY(event::Timer::create(loop, [] {}));
  for (auto [signum, timeout] : {std::pair{SIGTERM, grace}, std::pair{SIGKILL, kKillTime}}) {
    std::set<pid_t> signalled;
    late = false;
    timer.start_grace(timeout);
    poll.start(event::Seconds(0.05), event::Seconds(0.05));
    loop.run_until([&, signum = signum] {
      pids = left(whose, children);
      for (pid_t pid : pids) {
        if (!signalled.insert(pid).second) continue;
        log.log(Level::debug, "", "{} to {} ({}), which outlived its task",
                signum == SIGTERM ? "SIGTERM" : "SIGKILL", pid, name_of(pid));
        ::kill(pid, signum);
        if (signum == SIGTERM) ::kill(pid, SIGCONT);
      }
      return late || all_gone(pids, whose, children);
    });
    if (all_gone(pids, whose, children)) return {};
  }
  for (pid_t pid : pids)
    log.log(Level::warn, "", "process {} ({}) survives SIGKILL: {}", pid, name_of(pid), KernelWait::of(pid).str());
  Unkillable::announce(host, pids);
  before_.insert(pids.begin(), pids.end());
  return {};
}

}  // namespace nacre::core
