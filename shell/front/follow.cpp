// SPDX-License-Identifier: Apache-2.0
#include "front/follow.hpp"

#include <sys/wait.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "event/clock.hpp"
#include "front/attach_view.hpp"
#include "front/job_verb.hpp"
#include "launch/launcher.hpp"
#include "record/places.hpp"

namespace nacre::front {
namespace {

constexpr event::Seconds kFirstWait{0.02};     // between two looks; twice as long after each, ...
constexpr event::Seconds kMostWait{0.2};       // ... up to this
constexpr event::Seconds kLookForShells{5.0};  // between two looks whether any shell is left
constexpr std::size_t kMostTitle = 4096;       // bytes
constexpr event::Seconds kToTellSearch{1.0};   // until a line says that the search takes long
constexpr event::Seconds kMostForHost{5.0};    // for a host to answer

struct Leader {
  control::Client client;
  std::string host;
};

// How the job has ended, or its leader; none: there is none yet.
struct Found {
  std::optional<Leader> leader;
  std::optional<int> code;
};

// In the lists of jobs that this process can read: of this host, or one that hosts share. `lost`: the host of the
// former leader; null: entries of other hosts do not count.
Found look_in_list(const FollowPlan& plan, const std::string* lost) {
  auto list = record::JobList::read(record::places(own_variable), record::own_witness(), event::wall_clock());
  auto job = list.find(plan.job.f58_plain());
  if (!job) return {};
  const record::Listed& listed = **job;
  if (listed.entry.ended() && !listed.entry.end->vanished) return {std::nullopt, listed.entry.end->code};
  // An entry that the lost leader has left looks the same as one of a new leader on its host.
  const bool may_be_lost = lost == nullptr || listed.entry.place.host == *lost;
  if (listed.state == record::JobState::unknown && may_be_lost) return {};
  if (listed.entry.ended()) return {};
  auto client = reach(listed.entry, list.directories[listed.place].path(), {});
  if (!client) return {};
  return {Leader{*std::move(client), listed.entry.place.host}, std::nullopt};
}

std::vector<std::string> bridge_words(const FollowPlan& plan) {
  std::vector<std::string> words{plan.program, "control", "--bridge", plan.job.f58_plain()};
  const std::vector<std::string> places = record::places(own_variable);
  if (!places.empty()) words.insert(words.end(), {"--jobs-dir", places.front()});
  return words;
}

// Asks the host for the leader's entry, in its own list: the shells have this process's variables for the place.
std::optional<Leader> look_on(const std::string& host, const FollowPlan& plan) {
  auto command = launch::agent_command(plan.agent, host, bridge_words(plan));
  if (!command) return std::nullopt;
  auto client = start_bridge(command->argv, kMostForHost, true);
  if (!client) return std::nullopt;
  return Leader{*std::move(client), host};
}

// The leader that has told who it is.
Found look_where_told(const FollowPlan& plan) {
  std::optional<launch::NextLeader>& told = *plan.told;
  Found found = look_in_list(plan, nullptr);
  if (!found.leader && !found.code && told && !launch::is_this_host(told->host)) {
    std::vector<std::string> words = srun_agent(told->allocation, told->host);
    const std::vector<std::string> bridge = bridge_words(plan);
    words.insert(words.end(), bridge.begin(), bridge.end());
    if (auto client = start_bridge(words, kMostForHost, true))
      found.leader = Leader{*std::move(client), told->host};
  }
  if (found.leader) told.reset();
  return found;
}

// The exit code of a program that has no input and output; -1: it could not be run.
int run_quietly(const std::vector<std::string>& words) {
  auto pid = start_program(words, {.quiet = true});
  if (!pid) return -1;
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether a shell of the job is left on this host, by what shells call themselves.
bool has_shell_here(const FollowPlan& plan) {
  const std::string title = fmt::format("nacre-shell: {} ", plan.job.f58_plain());
  std::error_code failed;
  for (const auto& each : std::filesystem::directory_iterator("/proc", failed)) {
    auto words = read_file(each.path().native() + "/cmdline", kMostTitle);
    if (words && words->starts_with(title)) return true;
  }
  return false;
}

// The same of another host; true, too, if that cannot be found out.
bool may_have_shell(const std::string& host, const FollowPlan& plan) {
  const std::string title = fmt::format("^nacre-shell: {} ", plan.job.f58_plain());
  auto command = launch::agent_command(plan.agent, host, {"pgrep", "-f", title});
  constexpr int kNone = 1;  // pgrep(1)
  return !command || run_quietly(command->argv) != kNone;
}

bool may_go_on(const FollowPlan& plan, const std::vector<std::string>& hosts) {
  return has_shell_here(plan) || std::any_of(hosts.begin(), hosts.end(),
                                             [&](const std::string& host) { return may_have_shell(host, plan); });
}

// Hosts of the lowest ranks come first, as one of these leads. The lost leader's host comes last, as it may have
// other shells.
std::vector<std::string> other_hosts(const FollowPlan& plan, const std::string& lost) {
  std::vector<std::string> out;
  std::set<std::string> known{lost};
  bool is_shared = false;
  for (const std::string& host : plan.agent.empty() ? std::vector<std::string>() : plan.hosts) {
    is_shared = is_shared || (host == lost && std::count(plan.hosts.begin(), plan.hosts.end(), lost) > 1);
    if (!launch::is_this_host(host) && known.insert(host).second) out.push_back(host);
  }
  if (is_shared && !launch::is_this_host(lost)) out.push_back(lost);
  return out;
}

Result<Found> find(const FollowPlan& plan, const std::string& lost,
                   const std::function<bool(event::Seconds)>& waits) {
  const event::Seconds began = event::clock_now();
  const std::vector<std::string> hosts = other_hosts(plan, lost);
  bool is_told = plan.quiet;
  event::Seconds look_at = began + kToTellSearch;
  event::Seconds wait = kFirstWait;
  while (event::clock_now() < began + kMostToFind) {
    Found found = plan.told != nullptr ? look_where_told(plan) : look_in_list(plan, &lost);
    if (found.leader || found.code) return found;
    for (const std::string& host : hosts) {
      if (auto leader = look_on(host, plan)) return Found{std::move(leader), std::nullopt};
      if (!waits(event::Seconds::zero())) return Error{EINTR, "interrupted"};
    }
    if (!waits(wait)) return Error{EINTR, "interrupted"};
    wait = std::min(2 * wait, kMostWait);
    if (event::clock_now() > look_at) {
      const bool is_over = plan.told != nullptr ? plan.is_over() : !may_go_on(plan, hosts);
      if (is_over) return Error{ESRCH, "the job has ended with it"};
      look_at = event::clock_now() + kLookForShells;
    }
    if (event::clock_now() > began + kToTellSearch && !std::exchange(is_told, true))
      print_err("{}: the shell that led job {} is lost: looking for the one that leads it now, for up to {:g} s\n",
                plan.front, plan.job.f58_plain(), kMostToFind.count());
  }
  return Error{ETIMEDOUT, fmt::format("none of its other shells leads it after {:g} s", kMostToFind.count())};
}

Result<AttachView::End> view(event::Loop& loop, Leader leader, const FollowPlan& plan) {
  AttachView::Options options;
  options.loop = &loop;
  options.request = {{"follows", true}, {"without", plan.without->str()}};
  options.without = plan.without;
  options.label = plan.label;
  options.quiet = plan.quiet;
  options.follows = true;
  options.followed = plan.input;
  options.on_report = plan.on_report;
  auto view = TRY(AttachView::create(std::move(leader.client), std::move(options)));
  for (int signum : plan.take_signals ? plan.take_signals() : std::vector<int>()) std::raise(signum);
  return view->run();
}

}  // namespace

bool has_another_leader(const value::JobId& job, pid_t leader) {
  auto list = record::JobList::read(record::places(own_variable), record::own_witness(), event::wall_clock());
  auto found = list.find(job.f58_plain());
  if (!found) return false;
  const record::JobEntry& entry = (*found)->entry;
  return entry.pid != leader || !launch::is_this_host(entry.place.host);
}

bool has_leader_elsewhere(const FollowPlan& plan) {
  const std::vector<std::string> hosts = other_hosts(plan, plan.hosts[0]);
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const std::string& host) { return look_on(host, plan).has_value(); });
}

Result<int> follow(event::Loop& loop, const FollowPlan& plan, const std::function<bool(event::Seconds)>& waits) {
  std::string lost = plan.hosts.empty() ? "" : plan.hosts[0];
  for (;;) {
    Found found = TRY(in("the shell that led the job is lost", find(plan, lost, waits)));
    if (found.code) return *found.code;
    if (!plan.quiet)
      print_err("{}: the shell that led job {} is lost: the one on {} leads it now\n", plan.front,
                plan.job.f58_plain(), found.leader->host);
    lost = found.leader->host;
    AttachView::End end = TRY(view(loop, *std::move(found.leader), plan));
    if (end.how != AttachView::How::ended) continue;
    if (!plan.quiet) print_err("{}", end.report);
    return end.code;
  }
}

}  // namespace nacre::front
