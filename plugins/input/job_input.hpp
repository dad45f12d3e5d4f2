// SPDX-License-Identifier: Apache-2.0
//
// The job's standard input where it has several shells, for the plugin `input`: shell 0 reads it and broadcasts it, and each
// shell has it as a pipe. What the tasks of one shell do not take is kept there, in a file, so that the others can go on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "bulk/port.hpp"
#include "event/loop.hpp"
#include "io/fd_sink.hpp"

namespace nacre::plugins {

class JobInput {
 public:
  struct Options {
    bool wanted = true;  // a task of this shell reads it
    std::string spill_directory = "/tmp";
    std::uint64_t spill_limit = io::FdSink::kSpillLimit;  // bytes
  };
  struct Callbacks {
    std::function<void(const Error&)> on_error;
    std::function<void()> on_wait;  // once: the other shells have to wait for the tasks of this one
  };

  // Serves the port's channel. `port` and `loop` have to outlive it; none of the callbacks may destroy it.
  static Result<std::unique_ptr<JobInput>> create(event::Loop& loop, bulk::Port& port, Options options,
                                                  Callbacks callbacks);
  ~JobInput();
  JobInput(const JobInput&) = delete;
  JobInput& operator=(const JobInput&) = delete;

  // The end of the pipe for tasks to read; none if it is not wanted. To be closed here once they have it.
  [[nodiscard]] UniqueFd& pipe() { return pipe_; }

  // The tasks of this shell read no more of it.
  void let_go();

  // Leader: broadcasts what can be read from this pipe, to its end. To be called once.
  Result<void> broadcast(UniqueFd source);

 private:
  JobInput(event::Loop& loop, bulk::Port& port, Options options, Callbacks callbacks)
      : loop_(loop), port_(port), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

  Result<void> open();
  void serve();
  void read_some();
  bool send();
  void take(bulk::Numbered number, std::string_view bytes);
  void go_on();
  void end_soon();

  event::Loop& loop_;
  bulk::Port& port_;
  Options options_;
  Callbacks callbacks_;
  // Leader: the way out.
  UniqueFd source_;
  std::optional<event::Poll> poll_;
  std::string unsent_;
  // The way to this shell's tasks.
  UniqueFd pipe_;
  UniqueFd to_pipe_;
  std::unique_ptr<io::FdSink> sink_;
  std::optional<event::Timer> end_timer_;
  bool failed_ = false;  // nobody reads the pipe any more
  bool ended_ = false;   // nothing more comes
  bool waited_ = false;
  std::vector<bulk::Numbered> unheard_;  // what was given to a full sink
};

}  // namespace nacre::plugins
