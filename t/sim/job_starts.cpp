// SPDX-License-Identifier: Apache-2.0
#include "job_starts.hpp"

#include "job_shell.hpp"

namespace nacre::sim {

void JobStarts::expect(Id rank, std::uint32_t attempt, Witness::Why why, const std::string& restart) {
  reasons_[{rank, attempt}] = {why, restart};
}

void JobStarts::renew(JobTask& task, std::uint32_t attempt, Witness::Why why, const std::string& restart) {
  expect(task.rank, attempt, why, restart);
  shell_.tasks().renew(task, attempt);
}

void JobStarts::started(JobTask& task) {
  const JobProcess& process = shell_.process();
  task.since = process.world().now;
  task.signalled = false;
  Witness::Start start{process.id(), task.rank, task.attempt};
  if (auto reason = reasons_.find({task.rank, task.attempt}); reason != reasons_.end()) {
    start.why = reason->second.why;
    start.restart = reason->second.restart;
  }
  process.witness().started(start);
}

}  // namespace nacre::sim
