// SPDX-License-Identifier: Apache-2.0
//
// Starts shells that nothing else starts. For each it starts a process on this host, its agent: the shell itself,
// or a program such as ssh that starts the shell on another host. The secret and the launch record go to the
// agent's standard input, never to a command line. Agents write to this process's standard output; their standard
// error comes out at this process's, in whole lines.
//
//   queued -> started -> joined, when the owner reports it -> ended
#pragma once

#include "event/children.hpp"
#include "event/loop.hpp"
#include "group/directory.hpp"
#include "task/command.hpp"
#include "task/spawn.hpp"
#include "value/idset.hpp"
#include "value/wait_status.hpp"

namespace nacre::launch {

// Joins equal warnings and errors of several shells: "nacre-shell[1]: warn: X" and, a moment later,
// "nacre-shell[3]: warn: X" become "nacre-shell[1,3]: warn: X". All else passes at once, and the lines of one shell
// stay in their order.
class AlikeLines : Noncopyable {
 public:
  static constexpr event::Seconds kMoment{0.1};
  static constexpr std::size_t kMostHeld = 64;

  using Put = std::function<void(const std::string& line)>;

  // `put` gets whole lines, each with its newline; it must not call this object.
  explicit AlikeLines(Put put) : put_(std::move(put)) {}
  ~AlikeLines() { flush(); }

  // The line has its newline.
  void add(const std::string& line);
  // Puts out the lines that are held.
  void flush();
  [[nodiscard]] bool empty() const { return held_.empty(); }

 private:
  struct Held {
    value::Idset shells;
    std::string rest;  // after "nacre-shell[...]"
  };

  Put put_;
  std::vector<Held> held_;  // in the order of their first lines
};

// What to do if the exit code of an agent may mean that `host` has no shell to start, as "; if n1 has no ...": 127
// and 126, sh(1). Else "".
[[nodiscard]] std::string remedy_without_shell(const value::WaitStatus& status, std::string_view host);

// The command that starts ssh, up to the host.
[[nodiscard]] std::vector<std::string> ssh_agent();
// The same for flux exec, on the broker of the host.
[[nodiscard]] std::vector<std::string> flux_agent();

// Whether this is the name of this host, in full or up to the first dot, localhost, or an address of IPv4 that this
// host has.
[[nodiscard]] bool is_this_host(const std::string& host);

// The command that starts the shell `words` on `host`: the words themselves for this host, or without an agent;
// else AGENT... HOST WORDS..., with the words quoted as needed, as a shell on the other side reads them. It has
// this process's environment. An error: an agent would take the host's name for an option.
Result<task::Command> agent_command(const std::vector<std::string>& agent, const std::string& host,
                                    const std::vector<std::string>& words);

class Launcher : Noncopyable {
 public:
  static constexpr std::size_t kMostAtOnce = 32;
  struct Options {
    std::vector<std::string> agent = {};  // empty: every host is this one
    std::vector<std::string> shell = {};  // path and options
    std::size_t at_once = kMostAtOnce;    // agents whose shells have not joined yet
    event::Seconds timeout{30};           // for a shell to join, counted from its agent's start
    // What agents write to standard output is dropped, as they must not hold this process's: its own agent waits
    // until nobody does.
    bool drops_output = false;
    bool joins_alike = false;  // joins equal messages of several shells: AlikeLines
  };
  // Called from the loop or from start(). They may call members, but not destroy the launcher.
  struct Callbacks {
    // Called once for a shell that has not joined and never will. `why` is one line with the agent's last line,
    // such as "ssh: connect to host n9 port 22: No route to host (ssh exited with code 255)".
    std::function<void(group::Rank, const std::string& host, const std::string& why)> on_failed;
    // The agent of a joined shell has ended, and so has the shell. Not called if the agent was killed by others or
    // has failed (exit code 255), as the shell may then still run. May be unset.
    std::function<void(group::Rank, const value::WaitStatus&)> on_ended;
    // Called before on_failed if a signal has ended the agent; may be unset.
    std::function<void(group::Rank, int signum)> on_killed;
    std::function<void(const std::string& line)>
        on_line;  // a line of standard error, with its newline; unset: it is written there
  };

  // `loop` and `children` have to outlive it.
  Launcher(event::Loop& loop, event::Children& children, Options options, Callbacks callbacks);
  ~Launcher();  // ends all agents that are left (SIGTERM, then SIGKILL), within 0.5 s

  struct Shell {
    group::Rank rank;
    std::string host;
    std::string lines;                    // launch_lines
    std::vector<std::string> agent = {};  // in place of that of the options; empty: that one
  };
  // Starts an agent for each, side by side, and writes its lines to its standard input, which stays open. Each rank
  // at most once.
  void start(std::vector<Shell> shells);
  void start(group::Rank rank, std::string host, std::string lines, std::vector<std::string> agent = {}) {
    start({{rank, std::move(host), std::move(lines), std::move(agent)}});
  }
  void joined(group::Rank rank);
  // The job goes on without this shell. Its agent is ended (SIGTERM, then SIGKILL), as its host may never answer.
  // For a shell of this host, its standard input is closed first, so that its guard can report what holds it up;
  // then it is killed.
  void lost(group::Rank rank);
  // This shell has left the job, and its links have ended. `done` is called once its agent has ended, which gets
  // SIGTERM, then SIGKILL, if that does not come soon; at once if there is none.
  void left(group::Rank rank, std::function<void()> done);
  // This shell, which has not joined, is not waited for any more: its agent is ended, and on_failed not called.
  void dismiss(group::Rank rank);
  // Starts no more. After `grace` the agents that are left get SIGTERM, then SIGKILL. `done` is called once when
  // none is left; from here, if none is now.
  void finish(event::Seconds grace, std::function<void()> done);
  // The shells go on without this one: their agents are not ended with this object.
  void let_go() { lets_go_ = true; }

  // Prints a message of this shell itself, with its newline, in order with those of the others.
  void print(const std::string& line);
  // Puts out the held lines, before this shell prints something itself.
  void flush_lines() { lines_.flush(); }

  [[nodiscard]] std::size_t running() const { return agents_.size(); }

  // The starts of agents that have not ended and whose shells have joined; times of event::clock_now().
  struct Start {
    group::Rank rank = 0;
    std::string program;
    event::Seconds started{}, joined{};
  };
  [[nodiscard]] std::vector<Start> starts() const;

 private:
  struct Agent;

  void start_some();
  void run(const std::vector<Agent*>& agents);
  Agent* prepare(Shell shell);
  Result<void> prepare_agent(Agent& agent, const Shell& shell);
  void take_up(Agent& agent, task::SpawnPool::Outcome started);
  void on_stderr(Agent& agent);
  void put(const std::string& line) const;
  void end_agent(group::Rank rank);
  void fail(Agent& agent, const std::string& why);
  void overdue(group::Rank rank);
  void finish_if_done();

  event::Loop& loop_;
  event::Children& children_;
  Options options_;
  Callbacks callbacks_;
  std::deque<Shell> queue_;
  std::map<group::Rank, std::unique_ptr<Agent>> agents_;  // that have not ended
  std::vector<std::unique_ptr<Agent>> over_;              // they may be running one of their own callbacks
  std::size_t waiting_ = 0;                               // agents that have neither joined nor failed
  bool starting_ = false;
  bool lets_go_ = false;
  std::function<void()> done_;
  AlikeLines lines_;
  std::optional<event::Timer> lines_timer_;
};

}  // namespace nacre::launch
