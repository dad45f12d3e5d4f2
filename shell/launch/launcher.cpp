// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "launch/own_sockets.hpp"
#include "task/subprocess.hpp"
#include "transport/secret.hpp"

namespace nacre::launch {
namespace {

constexpr int kTermToKillAtOnce = 500;  // ms
constexpr event::Seconds kTermToKill{2};
constexpr event::Seconds kHangUpToKill{3};  // for a shell of this host: longer than its guard needs
constexpr event::Seconds kLinger{1};        // that its other processes may keep its standard error open
constexpr int kAgentFailed = 255;           // ssh's exit code if it was terminated, or if the link broke
constexpr std::size_t kMaxLast = 400;       // bytes of an agent's last line

// The child stays to be waited for.
bool has_ended(pid_t child) {
  siginfo_t end{};
  return ::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOHANG | WNOWAIT) < 0 || end.si_pid == child;
}

}  // namespace

using group::Rank;

struct Launcher::Agent {
  Rank rank = 0;
  std::string host;
  std::string program;  // for messages
  std::unique_ptr<task::Subprocess> process;
  std::optional<event::Timer> timer;
  std::string lines;      // what it gets, until it runs
  std::string held;       // the last line of standard error, while the shell has not joined; or why it does not run
  bool is_shell = false;  // the process is the shell itself
  bool joined = false;
  bool failed = false;
  bool terminated = false;  // SIGTERM has been sent
  bool ended = false;
  std::function<void()> when_over;  // its shell has left the job
  event::Seconds started_at{}, joined_at{};
};

Launcher::Launcher(event::Loop& loop, event::Children& children, Options options, Callbacks callbacks)
    : loop_(loop),
      children_(children),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      lines_([this](const std::string& line) { put(line); }) {}

// A shell that an agent has just started in its process group has no guard yet, but SIGTERM lets it remove its
// socket.
Launcher::~Launcher() {
  if (lets_go_) return;
  std::vector<const task::Subprocess*> left;
  for (const auto& [rank, agent] : agents_) {
    if (!agent->process || agent->process->exited()) continue;
    left.push_back(agent->process.get());
    static_cast<void>(left.back()->kill(SIGTERM));
  }
  for (int ms = 0; ms < kTermToKillAtOnce && !left.empty(); ++ms) {
    std::erase_if(left, [](const auto* each) { return has_ended(each->pid()); });
    if (!left.empty()) ::usleep(1000);
  }
  for (const auto* each : left) static_cast<void>(each->kill(SIGKILL));
}

// ---- starting ----------------------------------------------------------------

void Launcher::start(std::vector<Shell> shells) {
  std::move(shells.begin(), shells.end(), std::back_inserter(queue_));
  start_some();
}

void Launcher::start_some() {
  if (std::exchange(starting_, true)) return;
  over_.clear();
  while (!queue_.empty() && waiting_ < options_.at_once && !done_) {
    std::vector<Agent*> agents;
    for (; !queue_.empty() && waiting_ < options_.at_once; queue_.pop_front()) {
      agents.push_back(prepare(std::move(queue_.front())));
    }
    run(agents);
    // Callbacks come only now: they may end those that run.
    std::vector<std::unique_ptr<Agent>> failed;
    for (Agent* agent : agents) {
      if (!agent->process) failed.push_back(std::move(agents_.extract(agent->rank).mapped()));
    }
    for (const auto& agent : failed) fail(*agent, agent->held);
  }
  starting_ = false;
}

// Side by side: most of a start is the program's exec. Those that cannot run have no process then.
void Launcher::run(const std::vector<Agent*>& agents) {
  task::SpawnPool pool(task::SpawnPool::useful_threads());
  const event::Children::StrangersKept strangers_kept(children_);
  std::deque<Agent*> begun;
  for (Agent* agent : agents) {
    if (!agent->process) continue;
    begun.push_back(agent);
    pool.begin(agent->process->command());
  }
  while (!begun.empty()) {
    pool.work();
    for (task::SpawnPool::Over& each : pool.take()) {
      take_up(*begun.front(), std::move(each.outcome));
      begun.pop_front();
    }
  }
}

Launcher::Agent* Launcher::prepare(Shell shell) {
  auto& agent = agents_[shell.rank];
  agent = std::make_unique<Agent>();
  agent->rank = shell.rank;
  agent->host = shell.host;
  agent->started_at = event::clock_now();
  ++waiting_;
  if (Result<void> prepared = prepare_agent(*agent, shell); !prepared) {
    agent->process.reset();
    agent->held = prepared.error().message;
  }
  agent->lines = std::move(shell.lines);
  return agent.get();
}

Result<void> Launcher::prepare_agent(Agent& agent, const Shell& shell) {
  Rank rank = agent.rank;
  const std::vector<std::string>& words = shell.agent.empty() ? options_.agent : shell.agent;
  agent.timer = TRY(event::Timer::create(loop_, [this, rank] { overdue(rank); }));
  task::Command command = TRY(agent_command(words, agent.host, options_.shell));
  agent.is_shell = words.empty() || is_this_host(agent.host);
  const std::string& name = words == flux_agent() ? words.back() : command.argv[0];
  agent.program = name.substr(name.rfind('/') + 1);
  if (options_.drops_output) command.setup.fds.push_back({STDOUT_FILENO, -1});
  command.stream_options["stdin_BUFSIZE"] =
      std::to_string(std::max(task::BufferedStream::kBufferSize, shell.lines.size()));
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [this, &agent](const std::string& /*stream*/) { on_stderr(agent); };
  callbacks.on_exit = [&agent] {
    agent.ended = true;
    agent.timer->start_grace(kLinger);
  };
  callbacks.on_complete = [this, rank] { end_agent(rank); };
  task::Subprocess::Options options;
  options.streams = {"stdin", "stderr"};
  options.inherit_stdio = true;
  agent.process =
      TRY(task::Subprocess::prepare(loop_, children_, std::move(command), options, std::move(callbacks)));
  return {};
}

void Launcher::take_up(Agent& agent, task::SpawnPool::Outcome started) {
  std::string lines = std::exchange(agent.lines, {});
  if (started) {
    agent.process->started(started->pid);
    agent.timer->start_grace(options_.timeout);
    // If this fails the agent has gone, and its end is reported.
    static_cast<void>(agent.process->stream("stdin")->write(lines));
  } else {
    agent.process.reset();
    agent.held = started.error().error.message;
  }
  transport::wipe(lines);
}

// ---- while they run ----------------------------------------------------------------

void Launcher::on_stderr(Agent& agent) {
  std::string line(agent.process->stream("stderr")->get_line());
  if (line.empty()) return;
  if (line.back() != '\n') line += '\n';
  if (agent.joined || agent.failed) return print(line);
  // The last line is kept, as it may be why the shell fails; it is then part of that message.
  std::string before = std::exchange(agent.held, std::move(line));
  if (!before.empty()) print(before);
}

void Launcher::print(const std::string& line) {
  if (!options_.joins_alike) return put(line);
  bool was_empty = lines_.empty();
  lines_.add(line);
  if (lines_.empty() || !was_empty) return;
  if (!lines_timer_) {
    auto timer = event::Timer::create(loop_, [this] { lines_.flush(); });
    if (!timer) return lines_.flush();
    lines_timer_ = *std::move(timer);
    lines_timer_->unref();
  }
  lines_timer_->start(AlikeLines::kMoment);
}

void Launcher::put(const std::string& line) const {
  if (callbacks_.on_line) return callbacks_.on_line(line);
  static_cast<void>(write_all(STDERR_FILENO, line));  // if it fails there is no place left to report it
}

void Launcher::joined(Rank rank) {
  auto found = agents_.find(rank);
  if (found == agents_.end() || found->second->joined || found->second->failed) return;
  Agent& agent = *found->second;
  agent.joined = true;
  agent.joined_at = event::clock_now();
  if (!agent.ended && !done_) agent.timer->stop();
  --waiting_;
  if (!agent.held.empty()) print(std::exchange(agent.held, {}));
  start_some();
}

void Launcher::lost(Rank rank) {
  auto found = agents_.find(rank);
  bool runs =
      found != agents_.end() && found->second->joined && !found->second->ended && !found->second->terminated;
  if (!runs) return;
  Agent& agent = *found->second;
  if (!agent.is_shell) return overdue(rank);
  // It ends by itself, or its guard kills it and names the plugin that holds it up.
  agent.terminated = true;
  agent.process->stream("stdin")->close();
  agent.timer->start_grace(kHangUpToKill);
}

void Launcher::left(Rank rank, std::function<void()> done) {
  auto found = agents_.find(rank);
  if (found == agents_.end()) return done();
  Agent& agent = *found->second;
  agent.when_over = std::move(done);
  if (!agent.ended && !agent.terminated) agent.timer->start_grace(kTermToKill);
}

void Launcher::dismiss(Rank rank) {
  std::erase_if(queue_, [rank](const Shell& each) { return each.rank == rank; });
  auto found = agents_.find(rank);
  if (found == agents_.end() || found->second->joined || found->second->ended) return;
  Agent& agent = *found->second;
  if (!std::exchange(agent.failed, true)) --waiting_;
  if (!agent.process) return;
  agent.process->stream("stdin")->close();
  static_cast<void>(agent.process->kill(std::exchange(agent.terminated, true) ? SIGKILL : SIGTERM));
  agent.timer->start_grace(kTermToKill);
  start_some();
}

void Launcher::fail(Agent& agent, const std::string& why) {
  if (agent.joined || std::exchange(agent.failed, true)) return;
  --waiting_;
  // a copy, as the callback may destroy the agent
  std::string host = agent.host;
  if (callbacks_.on_failed && !done_) callbacks_.on_failed(agent.rank, host, why);
}

// The time is over in which the shell had to join, or the agent had to end, or others had to close its standard
// error.
void Launcher::overdue(Rank rank) {
  Agent& agent = *agents_.at(rank);
  if (agent.ended) return end_agent(rank);
  if (!agent.joined && !agent.failed) {
    std::string words = in_quotes(trim(std::string_view(agent.held).substr(0, kMaxLast)));
    fail(agent, fmt::format("its shell has not joined within {} s; {}", options_.timeout.count(),
                            agent.held.empty() ? fmt::format("{} has printed nothing", agent.program)
                                               : fmt::format("the last line of {}: {}", agent.program, words)));
    start_some();
  }
  static_cast<void>(agent.process->kill(std::exchange(agent.terminated, true) ? SIGKILL : SIGTERM));
  agent.timer->start_grace(kTermToKill);
}

void Launcher::end_agent(Rank rank) {
  auto found = agents_.find(rank);
  if (found == agents_.end()) return;
  Agent& agent = *found->second;
  over_.push_back(std::move(found->second));
  agents_.erase(found);
  agent.timer->stop();
  const value::WaitStatus status = agent.process->status();
  if (agent.joined) {
    // A manager that ends a batch job ends the agents beside this shell too; the shells that they have started may
    // still run.
    bool of_shell =
        agent.is_shell || agent.terminated || (!status.is_signal() && status.exit_code() != kAgentFailed);
    if (of_shell && callbacks_.on_ended) callbacks_.on_ended(rank, status);
  } else {
    bool by_others = status.is_signal() && !agent.terminated && !agent.failed && !done_;
    if (by_others && callbacks_.on_killed) callbacks_.on_killed(rank, status.signal());
    std::string words(trim(std::string_view(agent.held).substr(0, kMaxLast)));
    fail(agent, fmt::format("{} ({} {}){}", words.empty() ? "it has printed nothing" : words, agent.program,
                            status.str(), remedy_without_shell(status, agent.host)));
  }
  if (agent.when_over) std::exchange(agent.when_over, nullptr)();
  start_some();
  finish_if_done();
}

// ---- the end -------------------------------------------------------------------------

void Launcher::finish(event::Seconds grace, std::function<void()> done) {
  done_ = std::move(done);
  queue_.clear();
  for (const auto& [rank, agent] : agents_) {
    if (agent->ended || agent->terminated) continue;
    agent->process->stream("stdin")->close();
    agent->timer->start_grace(grace);
  }
  finish_if_done();
}

std::vector<Launcher::Start> Launcher::starts() const {
  std::vector<Start> out;
  for (const auto& [rank, agent] : agents_) {
    if (agent->joined) out.push_back({rank, agent->program, agent->started_at, agent->joined_at});
  }
  return out;
}

void Launcher::finish_if_done() {
  if (!done_ || !agents_.empty()) return;
  std::exchange(done_, [] {})();
}

std::string remedy_without_shell(const value::WaitStatus& status, std::string_view host) {
  const bool is_absent = status.is_exit() && status.exit_code() == task::kExitNotFound;
  const bool is_not_run = status.is_exit() && status.exit_code() == task::kExitNotExecutable;
  if (!is_absent && !is_not_run) return "";
  return fmt::format(
      "; if {} {} nacre-shell there, install nacre at the same path on all hosts, or give its path by "
      "--shell=PATH",
      host, is_absent ? "has no" : "cannot run");
}

// ---- agent command ----------------------------------------------------------------------

namespace {

std::string_view short_name(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

// If a host becomes silent its ssh ends after 30 s, for as long as shells wait for their leader.
std::vector<std::string> ssh_agent() {
  return {"ssh",
          "-x",
          "-T",
          "-oBatchMode=yes",
          "-oConnectTimeout=10",
          "-oServerAliveInterval=10",
          "-oServerAliveCountMax=3"};
}

// flux exec takes ranks, runs words as they are, and has no directory of its own on the other host.
std::vector<std::string> flux_agent() {
  return {"/bin/sh", "-c",
          R"(rank=$(flux overlay lookup "$1") || exit 255; shift; exec flux exec -q -d / -r "$rank" sh -c "$*")",
          "flux-exec"};
}

bool is_this_host(const std::string& host) {
  const bool is_address = !host.empty() && host.find_first_not_of("0123456789.") == std::string::npos;
  if (is_address) {
    const auto own = numeric_addresses(std::numeric_limits<std::size_t>::max());
    return host.starts_with("127.") || std::find(own.begin(), own.end(), host) != own.end();
  }
  std::string own = own_host_name();
  return host == "localhost" ||
         (!own.empty() && (host == own || short_name(host) == own || host == short_name(own)));
}

Result<task::Command> agent_command(const std::vector<std::string>& agent, const std::string& host,
                                    const std::vector<std::string>& words) {
  task::Command command;
  command.env = job::Environment::own();
  if (agent.empty() || is_this_host(host)) {
    command.argv = words;
    return command;
  }
  if (host.empty() || host.front() == '-') return invalid(fmt::format("{} is no name of a host", in_quotes(host)));
  command.argv = agent;
  command.argv.push_back(host);
  for (const std::string& word : words) command.argv.push_back(quoted_for_shell(word));
  return command;
}

// ---- alike lines ------------------------------------------------------------------------

namespace {

constexpr std::string_view kPrefix = "nacre-shell[";
// Notices of plugins are left out: each shell may mean its own.
constexpr std::array<std::string_view, 3> kLevels{"]: warn: ", "]: error: ", "]: fatal: "};

// The shell of a warning or error, and the text from there on; none: it is no such message.
std::optional<std::pair<value::Idset, std::string_view>> message(std::string_view line) {
  std::size_t end = line.starts_with(kPrefix) ? line.find("]: ") : std::string_view::npos;
  if (end == std::string_view::npos) return std::nullopt;
  bool has_level =
      std::any_of(kLevels.begin(), kLevels.end(), [&](auto each) { return line.substr(end).starts_with(each); });
  if (!has_level) return std::nullopt;
  auto shells = value::Idset::parse(line.substr(kPrefix.size(), end - kPrefix.size()));
  if (!shells || shells->empty()) return std::nullopt;
  return std::pair(*std::move(shells), line.substr(end));
}

}  // namespace

void AlikeLines::add(const std::string& line) {
  auto found = message(line);
  if (!found) {
    flush();
    return put_(line);
  }
  value::Idset& shells = found->first;
  const std::string_view rest = found->second;
  auto alike = std::find_if(held_.begin(), held_.end(), [&](const Held& each) { return each.rest == rest; });
  bool again = alike != held_.end() && !(alike->shells & shells).empty();
  if (again || held_.size() == kMostHeld) {
    flush();
    alike = held_.end();
  }
  if (alike == held_.end())
    held_.push_back({std::move(shells), std::string(rest)});
  else
    alike->shells = alike->shells | shells;
}

void AlikeLines::flush() {
  for (const Held& each : std::exchange(held_, {}))
    put_(fmt::format("{}{}{}", kPrefix, each.shells.short_str(), each.rest));
}

}  // namespace nacre::launch
