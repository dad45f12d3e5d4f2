// SPDX-License-Identifier: Apache-2.0
//
// Runs programs beside the tasks, several at a time. Each has /dev/null as stdin, the shell's own stdout (unless
// its lines are wanted) and stderr, and a process group of its own, which is killed if it takes too long.
#pragma once

#include "job/options.hpp"
#include "plugin/host.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {

// The options prolog, epilog, task-prolog and task-epilog, and the lines that a task-prolog prints for its task.
//
// Such an option is one of
//
//   TEXT                              a command of /bin/sh; "$@" is the command of the job
//   [PROGRAM, ARG...]
//   {"command": one of these, "timeout": DURATION}
struct HookCommand {
  std::string name;               // the option and the command, for messages: prolog 'rm -r x'
  std::vector<std::string> argv;  // not empty
  value::Duration timeout = value::Duration::infinite();

  // None if the option is not set. `command`: that of the job.
  static Result<std::optional<HookCommand>> read(const job::Options& options, std::string_view option,
                                                 const std::vector<std::string>& command);
};

// One line of a task-prolog's stdout:
//
//   export NAME=VALUE   VALUE is all up to the end of the line, unchanged
//   unset NAME
//   print TEXT
//
// Blanks before NAME do not count. Other lines have no effect.
struct PrologLine {
  static constexpr std::size_t kMaxSize = std::size_t{128} << 10;  // bytes; Linux takes no larger variable

  enum class Kind { set, unset, print, other };
  Kind kind = Kind::other;
  std::string name;
  std::string text;  // VALUE, TEXT

  // `line` has no newline. An error: a name that no variable can have, or a line beyond kMaxSize.
  static Result<PrologLine> parse(std::string_view line);
};

class HookRunner {
 public:
  static constexpr std::size_t kMaxAtOnce = 64;
  // How long stdout may stay open after the end of a program whose lines are wanted: a process that the program has
  // left may hold it open.
  static constexpr event::Seconds kLinger{1.0};

  struct Run {
    std::string name;  // for errors
    task::Command command;
    value::Duration timeout = value::Duration::infinite();
    std::function<Result<void>(std::string_view line)> on_line{};  // a line of stdout; an error makes the run fail
    std::function<void(Result<void>)> on_end;  // called once; an error, with the name, unless it exited with 0
  };

  explicit HookRunner(plugin::Host& host);
  ~HookRunner();  // leaves running programs alone

  void add(Run run);  // on_end may be called at once, if the program cannot be started
  void drop_waiting() { waiting_.clear(); }
  // Sends the signal to all running programs, and to what they have started. What has not ended after the grace is
  // killed.
  void end_all(int signum, event::Seconds grace);

 private:
  struct Running;
  using Place = std::list<Running>::iterator;

  void start_next();
  Result<void> start(Place place);
  static void give_up(Running& running, const std::string& why);
  void read(Running& running);
  void end(Place place);

  plugin::Host& host_;
  std::deque<Run> waiting_;
  std::list<Running> running_;
};

}  // namespace nacre::plugins
