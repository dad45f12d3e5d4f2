// SPDX-License-Identifier: Apache-2.0
//
// One task of the job on this node: its command before it starts, its process while it runs, its end.
//
//   init -> running -> exited
//     `----- failed to start ----^
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "base/json_fwd.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "task/command.hpp"
#include "task/pty.hpp"
#include "task/stream.hpp"
#include "value/wait_status.hpp"

namespace nacre::task {

// The streams between this process and one that it starts, by name: "stdin", "stdout" and "stderr" as pipes, and
// channels, sockets of both directions. The other process finds the number of a channel's descriptor in the
// environment variable of the channel's name.
class Channels : Noncopyable {
 public:
  struct Callbacks {
    std::function<void(const std::string& name)> on_ready;
    std::function<void(const std::string& name)> on_end;
    std::function<void(const std::string& name, std::size_t bytes)> on_room;
  };
  explicit Channels(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  // Opens a channel before `command` starts, and adds the other side's end to it, as the command's stream_options
  // demand: NAME_LINE_BUFFER "false", NAME_BUFSIZE in bytes, with K, M or G, NAME_STREAM_STOP "true" (paused until
  // it is resumed). EEXIST: there is one of this name; EINVAL: the name cannot be that of a variable, or an option
  // is malformed.
  Result<void> open(event::Loop& loop, Command& command, const std::string& name);
  // The same with a descriptor of the caller's, for both directions; the other side's end is the caller's too.
  Result<void> add(event::Loop& loop, const Command& command, const std::string& name, UniqueFd ours);
  void started() { others_.clear(); }  // the other process has its ends: closes our copies of them

  [[nodiscard]] BufferedStream* find(std::string_view name) const;  // nullptr: none
  [[nodiscard]] std::size_t open_count() const;                     // how many have not come to their end
  [[nodiscard]] bool reading() const { return open_count() > 0; }

 private:
  BufferedStream::Callbacks callbacks_of(const std::string& name);

  Callbacks callbacks_;
  std::map<std::string, std::unique_ptr<BufferedStream>, std::less<>> streams_;
  std::vector<UniqueFd> others_;
};

enum class State { init, running, exited };

// As flux_shell_task_get_info(3) has it: "Init", "Running", "Exited".
[[nodiscard]] std::string_view state_name(State state);

class Task {
 public:
  Task(std::uint32_t rank, std::uint32_t local_id, Command command, std::uint32_t attempt = 1)
      : rank_(rank), local_id_(local_id), slot_(local_id), attempt_(attempt), command_(std::move(command)) {}

  [[nodiscard]] std::uint32_t rank() const { return rank_; }          // in the job
  [[nodiscard]] std::uint32_t local_id() const { return local_id_; }  // in this shell, from 0
  // From 0; all tasks that run at the same time in this shell have different slots, by which they are bound.
  // Without the option at-most it is the local id.
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  void set_slot(std::uint32_t slot) { slot_ = slot; }
  // The job starts this rank for so many-th time, here or elsewhere.
  [[nodiscard]] std::uint32_t attempt() const { return attempt_; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] pid_t pid() const { return pid_; }    // 0 before it runs; kept after its end
  [[nodiscard]] int io() const { return io_.get(); }  // /proc/PID/io, open, if the command asks for it; -1: none
  [[nodiscard]] const value::WaitStatus& status() const { return status_; }  // once exited
  [[nodiscard]] const rusage& usage() const { return usage_; }               // once exited
  [[nodiscard]] const event::Death& death() const { return death_; }         // once exited

  [[nodiscard]] Command& command() { return command_; }  // may be changed before it runs
  [[nodiscard]] const Command& command() const { return command_; }

  // init -> running. `io`: see Spawned.
  void started(pid_t pid, UniqueFd io = {});
  // running or init -> exited
  void exited(const value::WaitStatus& status, const rusage& usage, const event::Death& death = {});

  // Its process has not ended, though it was killed, and nobody waits for it any more; it counts as exited, by
  // SIGKILL. What the process holds, such as pipes, may never come to an end.
  [[nodiscard]] bool is_given_up() const { return is_given_up_; }
  void give_up();
  // The number of its channels that have not come to their end.
  [[nodiscard]] std::size_t open_channels() const { return channels_ ? channels_->open_count() : 0; }

  // It has ended, and the job starts its rank once more: this end is no record. Policies pass over it.
  [[nodiscard]] bool starts_again() const { return starts_again_; }
  void set_starts_again(bool again) { starts_again_ = again; }

  // Streams between the task and the shell, before the task runs: those that its command names; "stdout" and
  // "stderr" too, unless they go elsewhere. subscribe: `on_ready` is called as by Stream; EEXIST if there is a
  // subscriber.
  Result<void> subscribe(const std::string& channel, std::function<void()> on_ready);
  // Opens all channels. `on_end` is called once for each that has come to its end; what has no reader is dropped.
  // Does nothing if there are none.
  Result<void> open_channels(event::Loop& loop, std::function<void()> on_end);
  [[nodiscard]] BufferedStream* channel(std::string_view name) const;

  // The terminal that is its stdin, stdout and stderr; none if it has none. Set it before the task runs. The task's
  // side is closed here once the task runs, or has failed to start.
  void set_pty(std::unique_ptr<Pty> pty);
  [[nodiscard]] Pty* pty() const { return pty_.get(); }

  // Signals the task's process group, or only the process if it has no group. False if it does not run.
  bool kill(int signum) const;

  // Kills what has stayed of the process group of a task that has just ended.
  void kill_left() const;

  // flux_shell_task_get_info(3); "starts_again": true, if it does.
  [[nodiscard]] Json info() const;

 private:
  std::uint32_t rank_;
  std::uint32_t local_id_;
  std::uint32_t slot_;
  std::uint32_t attempt_;
  State state_ = State::init;
  bool starts_again_ = false;
  bool is_given_up_ = false;
  pid_t pid_ = 0;
  UniqueFd io_;
  value::WaitStatus status_;
  rusage usage_{};
  event::Death death_;
  Command command_;
  std::map<std::string, std::function<void()>> subscribers_;  // by channel
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<Pty> pty_;
};

}  // namespace nacre::task
