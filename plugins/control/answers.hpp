// SPDX-License-Identifier: Apache-2.0
//
// What the leader of a job answers to its front ends: doc/control.md has the requests.
#pragma once

#include "control/message.hpp"
#include "plugin/host.hpp"
#include "plugins/control/questions.hpp"
#include "record/entry.hpp"

namespace nacre::plugins {

class Answers {
 public:
  // What is sent for one request: any number of parts, then the answer.
  struct Reply {
    std::function<void(Json)> part;
    std::function<void(const Result<Json>&)> answer;
  };

  Answers(plugin::Host& host, Questions& questions) : host_(host), questions_(questions) {}

  // The tasks that have terminals.
  void set_terminals(value::Idset ranks) { terminals_ = std::move(ranks); }

  // The job has ended: nothing can be done to it any more. `summary`: exits::summary().
  void job_ended(const Json& summary) { summary_ = summary; }

  // `entry`: the job's, in the list of jobs.
  void serve(const control::ControlRequest& request, const record::JobEntry& entry, Reply reply);

  // The tasks that have not ended for good.
  [[nodiscard]] value::Idset running() const;
  // The job's exit code by its tasks alone, once all have ended. None: some run, or the job is ended for another
  // reason.
  [[nodiscard]] std::optional<int> code_of_tasks() const;

  // What the plugin exit-report knows so far, or null. `summary`: of the job's end, or {}.
  [[nodiscard]] Json report(const Json& summary) const;
  // What the plugin usage knows so far, in at most `most` bytes; null: it measures nothing. `cells`: how many cells
  // measures by rank have, at most.
  [[nodiscard]] Json usage(std::size_t most, std::size_t cells) const;
  // What the entry of a job that has ended keeps of its timeline; null: it has none.
  [[nodiscard]] Json timeline() const;

 private:
  [[nodiscard]] Json status(const record::JobEntry& entry) const;
  [[nodiscard]] std::optional<std::string> hosts() const;  // none: they have no names, or too many
  [[nodiscard]] Json exits() const;
  [[nodiscard]] Json report_so_far() const;
  Result<Json> send_signal(const Json& arguments);
  Result<Json> cancel();
  void processes(const Json& arguments, Reply reply);
  void places(const Reply& reply);
  [[nodiscard]] std::string host_of(std::uint32_t shell) const;
  [[nodiscard]] Json row_of(const TaskProcess& process) const;
  [[nodiscard]] Json hosts_of(const value::Idset& shells) const;
  void examine(const Json& arguments, Reply reply);
  void usage(const Json& arguments, const Reply& reply) const;
  void timeline(const Json& arguments, const Reply& reply);
  [[nodiscard]] Json exits_by_record() const;

  plugin::Host& host_;
  Questions& questions_;
  value::Idset terminals_;
  Json summary_;  // null: the job runs
};

}  // namespace nacre::plugins
