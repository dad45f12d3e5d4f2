// SPDX-License-Identifier: Apache-2.0
//
// The standard input of a job of several shells, for the plugin `input`: shell 0 reads it and broadcasts it, and
// each shell has it as a pipe. What the tasks of one shell do not take is kept there in a file, so that the others
// can go on.
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
    std::function<void()> on_wait;  // called once: the other shells have to wait for the tasks of this one
  };

  // Serves the port's channel. `port` and `loop` have to outlive it; no callback may destroy it.
  static Result<std::unique_ptr<JobInput>> create(event::Loop& loop, bulk::Port& port, Options options,
                                                  Callbacks callbacks);
  ~JobInput();
  JobInput(const JobInput&) = delete;
  JobInput& operator=(const JobInput&) = delete;

  // The end of the pipe that tasks read; none if it is not wanted. The caller closes it here once the tasks have
  // it.
  [[nodiscard]] UniqueFd& pipe() { return pipe_; }

  // The tasks of this shell read no more input.
  void let_go();

  // Leader: broadcasts all that comes out of this pipe. To be called once.
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
  // The leader's way to all shells.
  UniqueFd source_;
  std::optional<event::Poll> poll_;
  std::string unsent_;
  // The way to this shell's tasks.
  UniqueFd pipe_;
  UniqueFd to_pipe_;
  std::unique_ptr<io::FdSink> sink_;
  std::optional<event::Timer> end_timer_;
  bool failed_ = false;  // the pipe has no reader any more
  bool ended_ = false;   // nothing more comes
  bool waited_ = false;
  std::vector<bulk::Numbered> unconsumed_;  // given to a full sink
};

}  // namespace nacre::plugins
