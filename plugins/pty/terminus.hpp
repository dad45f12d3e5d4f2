// SPDX-License-Identifier: Apache-2.0
//
// Tasks' terminals for clients of a Flux instance, such as `flux job attach`: requests to SERVICE.terminus.
//
//   ID           to the terminal of task ID: attach (a stream of what comes from there, up to its exit), data,
//                resize, detach; a client has to be attached for all others
//   list         the terminals
//   kill         a signal for the programs on one; with "wait" it is answered once that has ended
//   kill-server  SIGKILL for all of them; it is answered once they have ended
//
// Only the job's user may send them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "broker/instance.hpp"
#include "plugin/host.hpp"
#include "task/task.hpp"

namespace nacre::plugins {

class Terminus {
 public:
  // Both have to outlive it.
  Terminus(plugin::Host& host, broker::Instance& instance);
  ~Terminus();
  Terminus(const Terminus&) = delete;
  Terminus& operator=(const Terminus&) = delete;

  struct Use {
    bool waits = false;  // the job does not end before a client has had what the task wrote
    bool reads = false;  // nobody else reads the terminal: what the task writes waits there for a client
  };
  // The terminal of a task, which has to outlive this object, from here on. Both see that the task has one.
  Result<void> open(task::Task& task, Use use);
  void task_ended(const task::Task& task);
  // The task starts once more, with another terminal: its clients are told the end of this one, if it has one.
  void close(const task::Task& task);

 private:
  class Session;
  using Request = broker::BrokerMessage;

  void take(const Request& request);
  void kill(const Request& request);
  void kill_all(const Request& request);
  void list(const Request& request);
  Result<Session*> find(std::string_view id);
  void look();

  plugin::Host& host_;
  broker::Instance& instance_;
  double begun_;
  std::map<std::uint32_t, std::unique_ptr<Session>> sessions_;  // by rank; they stay when they are over
  std::vector<Request> kills_;                                  // that wait for the end of all
  plugin::Registration signals_;
};

}  // namespace nacre::plugins
