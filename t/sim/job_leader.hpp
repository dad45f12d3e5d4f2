// SPDX-License-Identifier: Apache-2.0
//
// What the leader of a simulated job has beside JobElastic: it passes on what is ordered, requests what the log is
// to have, and counts the ends of those starts of tasks that the job waits for. The real elastic::ExpectedStarts
// decides which these are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "elastic/recovery.hpp"
#include "group/codec.hpp"
#include "job_grows.hpp"
#include "job_losses.hpp"
#include "job_restart_orders.hpp"
#include "job_shrinks.hpp"
#include "job_whole_answers.hpp"

namespace nacre::sim {

class JobElastic;
class JobShell;

class JobLeader {
 public:
  JobLeader(JobShell& shell, JobElastic& elastic);

  void order(std::size_t number, const Order& order);
  // `done`: gets the entry that answers it; null: it could not be sent.
  void request(RequestBody body, const std::function<void(const Entry*)>& done);
  void answered(const Entry& entry);
  void announced(const std::string& topic, const Json& what);

  // From now on this start of them counts, or the one that the job has.
  void expect(const Idset& ranks, std::uint32_t attempt) { expected_.expect(ranks, attempt); }
  void expect(const Idset& ranks);
  void reported(const group::Ended& ended);
  void note_ended(const Idset& ranks, const exits::Record& record);  // for good

  void tasks_are_over();
  void job_over();
  [[nodiscard]] bool is_over() const { return job_over_; }
  [[nodiscard]] std::string open() const;

  [[nodiscard]] JobGrows& grows() { return grows_; }
  [[nodiscard]] JobLosses& losses() { return losses_; }
  [[nodiscard]] JobRestartOrders& restarts() { return restarts_; }
  [[nodiscard]] JobShrinks& shrinks() { return shrinks_; }
  [[nodiscard]] JobWholeAnswers& answers() { return answers_; }

 private:
  JobShell& shell_;
  JobElastic& elastic_;
  elastic::ExpectedStarts expected_;
  std::map<std::uint64_t, std::function<void(const Entry*)>> requests_;
  bool job_over_ = false;
  JobGrows grows_;
  JobLosses losses_;
  JobRestartOrders restarts_;
  JobShrinks shrinks_;
  JobWholeAnswers answers_;
};

}  // namespace nacre::sim
