// SPDX-License-Identifier: Apache-2.0
//
// Commands beside the tasks for clients of a Flux instance, such as `flux exec --jobid`: requests to SERVICE.rexec
// (RFC 42), on each shell for those on its node.
//
//   exec    starts a command. A stream of responses has all about it up to its end, which the client's input can
//           reach by `write`; asked for without a stream it runs in the background, and its output is logged
//   write   input for a command of the same client
//   kill    a signal for a command, by its pid or label
//   list    those that run
//   wait    how a command in the background, started to be waited for, has ended
//
// Only the job's user may send them, and only in an instance that is that user's own: the broker of another user
// could claim anything about who asks.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "broker/instance.hpp"
#include "plugin/host.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {

class Rexec {
 public:
  // Both have to outlive it. `after_term`: between SIGTERM and SIGKILL, in the end.
  Rexec(plugin::Host& host, broker::Instance& instance, value::Duration after_term);
  ~Rexec();
  Rexec(const Rexec&) = delete;
  Rexec& operator=(const Rexec&) = delete;

  // This shell's tasks have ended: commands get SIGTERM, SIGKILL after a time, and the job waits for them.
  void end_all();

 private:
  using Request = broker::BrokerMessage;
  struct Process {
    Request request;
    bool is_streamed = false;
    bool is_waited = false;  // for; it stays after its end until somebody has asked
    std::int64_t flags = 0;
    std::string label;
    std::string name;  // of its program
    std::unique_ptr<task::Subprocess> child;
    std::string input;              // that its stdin has no room for
    bool input_ends = false;        // behind it
    std::optional<Request> waiter;  // for its end
    bool is_complete = false;
  };
  struct Wanted;

  void take(const Request& request);
  Result<void> answer(std::string_view method, const Request& request);
  Result<void> exec(const Request& request);
  Result<void> start(Process& process, Wanted wanted);
  Result<void> kill(const Request& request);
  Result<void> wait(const Request& request);
  void list(const Request& request);
  void write(const Request& request);
  void disconnect(const Request& request);
  Result<Process*> find(const JsonAt& message);

  void read(Process& process, const std::string& stream);
  void put(Process& process, const std::string& stream, std::string_view bytes, bool is_end);
  void feed(Process& process);
  void give_credit(Process& process, std::size_t bytes);
  void exited(Process& process);
  void complete(Process& process);
  void remove_complete();

  plugin::Host& host_;
  broker::Instance& instance_;
  const value::Duration after_term_;
  const bool is_trusted_;
  std::list<Process> processes_;
  std::optional<event::Timer> timer_;
  bool is_over_ = false, holds_ = false;
};

}  // namespace nacre::plugins
