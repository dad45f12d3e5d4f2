// SPDX-License-Identifier: Apache-2.0
//
// The table of all tasks for debuggers, for clients of a Flux instance such as `flux job attach --debug`: the
// request SERVICE.proctable. The shell that leads has that of the whole job, the others that of their own tasks.
//
// The answer has five lists of an entry for each task, in the order of ranks: "hosts" and "executables", which are
// texts, and "ids" (ranks of tasks), "pids" and "ranks" (of brokers), numbers as the difference to the one before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "broker/instance.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

class Proctable {
 public:
  // Both have to outlive it.
  Proctable(plugin::Host& host, broker::Instance& instance);
  ~Proctable();
  Proctable(const Proctable&) = delete;
  Proctable& operator=(const Proctable&) = delete;

 private:
  using Request = broker::BrokerMessage;
  // All tasks, while shells are asked.
  struct Gathering;

  void take(const Request& request);
  void gather(const Request& request);
  [[nodiscard]] Json own_rows() const;

  plugin::Host& host_;
  broker::Instance& instance_;
  std::vector<std::uint32_t> calls_;  // tags, of those that were ever made
};

}  // namespace nacre::plugins
