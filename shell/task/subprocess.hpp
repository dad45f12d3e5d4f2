// SPDX-License-Identifier: Apache-2.0
//
// A process that is no task of the job. It is started for a plugin, with its streams on the event loop.
//
//   running -> exited -> complete (all that it wrote was offered for reading)
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "event/children.hpp"
#include "event/loop.hpp"
#include "task/command.hpp"
#include "task/pty.hpp"
#include "task/spawn.hpp"
#include "task/task.hpp"

namespace nacre::task {

class Subprocess : Noncopyable {
 public:
  struct Options {
    std::vector<std::string> streams = {"stdout", "stderr"};  // and "stdin"; the command's channels are added
    bool inherit_stdio = false;  // descriptors without a stream: the shell's own; else /dev/null
    // A terminal of this size as its stdin, stdout and stderr, which it leads a session on: the stream "pty", in
    // place of `streams`. It is hung up with this object.
    std::optional<winsize> pty = {};
    Spawner::ChildHook hook = {};  // runs in the child; it makes the start slower
  };
  // on_complete may destroy the subprocess; the others must not.
  struct Callbacks {
    std::function<void(const std::string& stream)> on_ready;  // as Stream::Callbacks
    std::function<void(const std::string& stream, std::size_t bytes)> on_room;
    std::function<void()> on_exit;
    std::function<void()> on_complete;
  };

  // Starts `command`, in its own process group if its setup demands that. `loop` and `children` have to outlive it.
  static tl::expected<std::unique_ptr<Subprocess>, SpawnError> start(event::Loop& loop, event::Children& children,
                                                                     Command command, Options options,
                                                                     Callbacks callbacks);
  // The same in two steps: what it has with this process is made, and whoever starts its command() then tells that
  // it runs. `options` has no hook.
  static Result<std::unique_ptr<Subprocess>> prepare(event::Loop& loop, event::Children& children, Command command,
                                                     const Options& options, Callbacks callbacks);
  void started(pid_t pid);
  ~Subprocess();  // a process that still runs is left alone

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool exited() const { return exited_; }
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] const value::WaitStatus& status() const { return status_; }  // once exited
  [[nodiscard]] const rusage& usage() const { return usage_; }               // once exited
  [[nodiscard]] BufferedStream* stream(std::string_view name) const {
    return channels_.find(name);
  }  // nullptr: none
  [[nodiscard]] Command& command() { return command_; }

  // The process's terminal; null: it has none.
  [[nodiscard]] Pty* pty() const { return pty_.get(); }
  // Takes its terminal away: what is in the foreground there gets SIGHUP. It may be complete then, see on_complete.
  void hang_up();

  // Signals its process group, or only the process if it has no group. ESRCH if it does not run.
  [[nodiscard]] Result<void> kill(int signum) const;

 private:
  Subprocess(event::Children& children, Command command, Callbacks callbacks);
  Result<void> open_streams(event::Loop& loop, const Options& options);
  Result<void> open_pty(event::Loop& loop, const winsize& size);
  void on_exit(const event::ChildExit& end);
  void complete_if_done();

  event::Children& children_;
  Command command_;
  Callbacks callbacks_;
  Channels channels_;
  std::unique_ptr<Pty> pty_;
  pid_t pid_ = 0;
  bool exited_ = false;
  bool is_given_up_ = false;  // what it holds may never come to an end
  bool complete_ = false;
  value::WaitStatus status_;
  rusage usage_{};
};

// One command at a time, with the shell's own environment. It is killed when it takes too long, and with this
// object.
class CommandRun {
 public:
  static constexpr event::Seconds kMostTime{20};
  static constexpr std::size_t kMostText = 1 << 20;  // bytes of its output and of standard error that are kept

  // Both have to outlive it.
  CommandRun(event::Loop& loop, event::Children& children) : loop_(loop), children_(children) {}
  ~CommandRun();

  struct What {
    std::string name;  // for messages
    std::vector<std::string> argv;
    std::vector<std::pair<std::string, std::string>> variables = {};
    event::Seconds most = kMostTime;
    bool is_told_by_output = false;  // why it fails is on standard output where standard error is empty
    bool ends_with_shell = false;    // also where the shell is killed
  };
  // With what it has written to standard output; an error has the command, and the last line of standard error.
  using WhenDone = std::function<void(Result<std::string>)>;
  // `done` is called once, from the loop. An error that is returned: it has not been started.
  Result<void> start(What what, WhenDone done);
  [[nodiscard]] bool runs() const { return process_ != nullptr; }

 private:
  void read();
  void complete();

  event::Loop& loop_;
  event::Children& children_;
  std::unique_ptr<Subprocess> process_;
  std::optional<event::Timer> limit_;
  WhenDone done_;
  std::string command_;
  event::Seconds most_{};
  std::string out_, err_;
  bool is_late_ = false, is_told_by_output_ = false;
};

}  // namespace nacre::task
