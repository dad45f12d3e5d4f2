// SPDX-License-Identifier: Apache-2.0
//
// What `nacre top` knows of a job: the leader's answers to `status`, `exits` and `ps`, taken each period. It has no
// clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "front/ps_rows.hpp"
#include "value/idset.hpp"

namespace nacre::front {

// The leader's answer to `status`.
struct TopStatus {
  std::string id;
  std::string name;
  std::uint64_t tasks = 0;
  std::uint64_t shells = 0;
  std::uint64_t running = 0;
  double started = 0;  // seconds since the Epoch
  bool ending = false;
  std::vector<std::string> hosts;  // of the shells, in their order; empty: the leader has left them out
  value::Idset gone = {};          // shells that are lost, or have left
  [[nodiscard]] std::uint64_t nodes() const { return shells - std::min(shells, gone.size()); }

  static Result<TopStatus> parse(const Json& json);
};

// The leader's answers of one period.
struct TopSample {
  TopStatus status;
  std::uint64_t failed = 0;                                         // tasks
  std::vector<PsTask> tasks;                                        // that run
  std::vector<std::string> late;                                    // hosts whose shells have not answered
  std::vector<std::string> notes = {};                              // why nothing is known of GPUs
  static Result<std::uint64_t> failed_of(const Json& exits);        // of the answer to `exits`
  static Result<std::vector<std::string>> late_of(const Json& ps);  // of the last part of the answer to `ps`
  static Result<std::vector<std::string>> notes_of(const Json& ps);
};

struct TopNode {
  std::string host;
  std::uint32_t shell = 0;
  std::uint64_t tasks = 0;                // that run
  double cpu = 0;                         // of one CPU, since the last sample
  double rss = 0;                         // bytes
  std::optional<double> late;             // seconds since its shell has last answered; none: it has answered now
  std::optional<double> gpu_memory = {};  // of the tasks of which it is known, as is the next: none of none
  std::optional<double> gpu_device_use = {};  // the mean
};

class TopModel {
 public:
  // `now`: seconds since the Epoch. CPU use is that since the sample before, for a task that has not been seen
  // before that since its start. A shell that is late keeps the tasks that it had.
  void take(TopSample sample, double now);

  [[nodiscard]] bool empty() const { return status_.id.empty(); }  // nothing has been taken yet
  [[nodiscard]] const TopStatus& status() const { return status_; }
  [[nodiscard]] std::uint64_t failed() const { return failed_; }
  [[nodiscard]] double time() const { return now_ - status_.started; }  // seconds that the job has run
  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] std::vector<TopNode> nodes() const;                          // in the order of the shells
  [[nodiscard]] const std::vector<PsTask>& tasks() const { return tasks_; }  // in the order of their ranks
  [[nodiscard]] double cpu() const;                                          // of all tasks
  [[nodiscard]] double rss() const;
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  [[nodiscard]] Json json(bool with_tasks) const;

 private:
  struct Usage {
    std::int64_t pid = 0;
    double time = 0, cpu = 0;  // seconds
  };
  struct Node {
    std::string host;
    double seen = 0;  // when it has last answered
    bool late = false;
  };
  void measure(PsTask& task);

  TopStatus status_;
  std::uint64_t failed_ = 0;
  std::vector<std::string> notes_;
  double now_ = 0;
  std::vector<PsTask> tasks_;
  std::map<std::uint32_t, Usage> usage_;  // by rank
  std::map<std::uint32_t, Node> nodes_;   // by shell
};

}  // namespace nacre::front
