// SPDX-License-Identifier: Apache-2.0
//
// What has to hold of a whole job: every live shell ends, with one code; the cause that is named has happened; each
// rank has one record. Checked against what was done to the job and against the leader's log, not against what the
// shells make of them.
#pragma once

#include <map>

#include "elastic_check.hpp"
#include "job_shell.hpp"

namespace nacre::sim {

class JobCheck {
 public:
  static constexpr Id kMostShells = 100'000;
  using Shells = std::vector<std::unique_ptr<JobShell>>;

  JobCheck(World& world, const JobPlan& plan, const Shells& shells)
      : world_(world), plan_(plan), shells_(shells), elastic_(world, plan, shells, harmed_) {}

  // What was done.
  void harmed(Id shell) { harmed_.insert(shell); }
  void all_harmed() { harmed_ = Idset::range(0, kMostShells); }
  void crashed(Id shell);
  void failed(Id shell, const exits::Cause& cause, bool must);

  // What the shells do, each checked at once.
  void logged(const Entry& entry);  // by the leader
  void decided(Id shell, const exits::Cause& cause);
  void named(Id shell, const exits::Cause& cause);
  void recorded(Id rank, std::uint32_t attempt, const std::string& record);
  void ended(Id shell) { over_at_[shell] = world_.now; }
  [[nodiscard]] ElasticCheck& elastic() { return elastic_; }
  void count(JobOutcome& out) const { elastic_.count(out); }
  void entered(Id shell, Phase phase) const;
  void stepped(Id shell) const;

  // When nothing goes on any more.
  void at_the_end() const;
  [[nodiscard]] bool ended_early() const { return cause_.has_value(); }
  [[nodiscard]] bool has_led_to_the_end() const { return code_.has_value(); }
  // When a calm job has to be over.
  [[nodiscard]] Time bound() const;

 private:
  struct Happened {
    exits::Cause cause;
    bool must = false;
    Time at{};
  };

  void check_ends() const;
  void check_codes() const;
  void check_records() const;
  [[nodiscard]] int expected_code() const;
  [[nodiscard]] int by_policy() const;
  [[nodiscard]] bool is_live(Id shell) const { return world_.hosts[shell].life == Life::up; }

  World& world_;
  const JobPlan& plan_;
  const Shells& shells_;
  Idset harmed_;
  ElasticCheck elastic_;
  std::map<Id, Time> over_at_;
  std::vector<Happened> happened_;
  std::map<std::pair<Id, std::uint32_t>, std::string> records_;  // by rank and start, as its shell made it
  Idset dead_;                                                   // by the leader's log
  Idset had_entries_;                                            // when the leader crashed
  std::optional<Time> leader_crashed_;
  std::optional<group::JobException> cause_;  // the first of the log that ends the job
  std::optional<int> code_;                   // of the log's END
  std::vector<exits::Cause> named_;
};

}  // namespace nacre::sim
