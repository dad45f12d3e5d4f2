// SPDX-License-Identifier: Apache-2.0
//
// Starts shells where nothing has: each by a process of its own on this host, its agent, which is the shell itself or a
// program such as ssh that starts it on another host. The secret and the launch record go to the agent's standard input, never
// on a command line. What agents write to standard output goes where this process's does; their standard error comes out at
// this process's, whole lines.
//
//   queued -> started -> joined, when the owner says so -> ended
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "group/directory.hpp"
#include "launch/alike_lines.hpp"
#include "task/command.hpp"
#include "value/wait_status.hpp"

namespace nacre::launch {

// The words that start ssh, before the host.
[[nodiscard]] std::vector<std::string> ssh_agent();

// Whether this is the name of this host, in full or up to the first dot, or localhost.
[[nodiscard]] bool is_this_host(const std::string& host);

// What starts the shell `words` on `host`: the words themselves for this host, and where there is no agent; else
// AGENT... HOST WORDS..., the words quoted as far as they need it, as a shell on the other side reads them. The environment is
// that of this process. An error: a name that an agent would take for an option.
Result<task::Command> agent_command(const std::vector<std::string>& agent, const std::string& host,
                                    const std::vector<std::string>& words);

class Launcher {
 public:
  struct Options {
    std::vector<std::string> agent = {};  // empty: every host is this one
    std::vector<std::string> shell = {};  // its path and options
    std::size_t at_once = 32;             // agents that have been started and whose shells have not joined
    event::Seconds timeout{30};           // for a shell to join, from its agent's start on
    bool joins_alike = false;             // messages that several shells print alike come out once: AlikeLines
  };
  // Called from the loop or from start(). They may call members, but not destroy the launcher.
  struct Callbacks {
    // Once for a shell that has not joined and never will. `why`: one line: the agent's last words, as "ssh: connect to host
    // n9 port 22: No route to host (ssh exited with code 255)".
    std::function<void(group::Rank, const std::string& host, const std::string& why)> on_failed;
    // The agent of one that had joined, and so the shell; not where the agent was killed by others or has failed (exit code 255), which
    // says nothing of the shell. May be unset.
    std::function<void(group::Rank, const value::WaitStatus&)> on_ended;
    // Before on_failed, of one that a signal has ended; may be unset.
    std::function<void(group::Rank, int signum)> on_killed;
    std::function<void(const std::string& line)>
        on_line;  // of standard error, with its newline; unset: it is written there
  };

  // Neither `loop` nor `children` may go first.
  Launcher(event::Loop& loop, event::Children& children, Options options, Callbacks callbacks);
  ~Launcher();  // ends what is left (SIGTERM, then SIGKILL), within 0.5 s
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // `lines`: for the agent's standard input (launch_lines), which stays open behind them. Each rank once.
  void start(group::Rank rank, std::string host, std::string lines);
  void joined(group::Rank rank);
  // The job goes on without it: its agent is told to end (SIGTERM, then SIGKILL), as its host may never answer. A shell of this
  // host is told by the end of its standard input, so that its guard can report what holds it up, then killed.
  void lost(group::Rank rank);
  // No more are started. The agents have `grace` to end by themselves, then they are told to (SIGTERM), then killed. `done`
  // is called once when none is left, from here if that is so already.
  void finish(event::Seconds grace, std::function<void()> done);

  // A message of this shell itself, with its newline, among those of the others.
  void print(const std::string& line);
  // What is held comes out before what this shell is going to print itself.
  void flush_lines() { lines_.flush(); }

  [[nodiscard]] std::size_t running() const { return agents_.size(); }

 private:
  struct Agent;
  struct Queued {
    group::Rank rank;
    std::string host;
    std::string lines;
  };

  void start_some();
  void start_one(Queued shell);
  Result<void> start_agent(Agent& agent, std::string lines);
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
  std::deque<Queued> queue_;
  std::map<group::Rank, std::unique_ptr<Agent>> agents_;  // that have not ended
  std::vector<std::unique_ptr<Agent>> over_;              // may be in one of their own callbacks
  std::size_t waiting_ = 0;                               // have neither joined nor failed
  bool starting_ = false;
  std::function<void()> done_;
  AlikeLines lines_;
  std::optional<event::Timer> lines_timer_;
};

}  // namespace nacre::launch
