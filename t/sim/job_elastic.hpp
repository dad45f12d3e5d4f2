// SPDX-License-Identifier: Apache-2.0
//
// What one shell does as tasks start again, and shells leave, are lost and join: a small model of core/
// shell_restart, whole_restart, restart_orders, shell_replace, shell_shrink, shell_grow and shell_group, without
// plugins and processes. What all shells decide alike is up to the real elastic::Recovery, and is noted in a real
// job::Job; what they send is in the real texts.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "elastic/growth.hpp"
#include "elastic/recovery.hpp"
#include "elastic/roster.hpp"
#include "elastic/starts.hpp"
#include "job/job.hpp"
#include "job_kept_end.hpp"
#include "job_shell.hpp"
#include "value/shrunk.hpp"

namespace nacre::sim {

class JobLeader;

class JobElastic {
 public:
  using Rank = Id;
  using Task = JobTask;
  using Message = elastic::RestartMessage;
  using Decision = elastic::RestartDecision;

  JobElastic(JobShell& shell, const elastic::Growth* before);
  ~JobElastic();

  // ---- its tasks (job_restart.cpp)
  [[nodiscard]] Idset number_of(Rank rank, std::uint32_t attempt) const;
  void started(Task& task);
  void are_started();  // those of its start
  bool keeps(Task& task);
  void signalled();
  void drop_all();
  bool may_finish();  // and starts what is due
  void passed(const std::string& barrier);

  // ---- the log
  void deliver(const Entry& entry);
  void lost(Id shell);
  void announced(const std::string& topic, const std::string& bytes);
  void joined(Seq view);
  void leave();  // the log has taken it out
  void agree(Seq seq);

  // ---- of one that joins
  [[nodiscard]] bool is_joining() const { return joining_me_; }
  [[nodiscard]] bool has_state() const { return state_.has_value(); }
  [[nodiscard]] bool has_ended() const { return ended_.has_value(); }  // the job, before this shell could join
  void take_state();
  [[nodiscard]] bool fails_to_join(const exits::Cause& cause);  // true: it was about to join
  void ready();
  // ---- of any
  [[nodiscard]] bool leaves() const { return leaves_; }
  [[nodiscard]] bool has_left() const { return has_left_; }
  void all_put();
  [[nodiscard]] std::string open() const;  // what is open; "": nothing
  [[nodiscard]] const job::Job& job() const { return job_; }
  [[nodiscard]] JobLeader* leader() { return leader_.get(); }

 private:
  friend class JobLeader;
  using Kept = JobKeptEnd;
  using State = JobKeptEnd::State;
  [[nodiscard]] const Changes& changes() const { return *shell_.process().plan().changes; }
  [[nodiscard]] bool ending() const { return shell_.ending().is_ending(); }
  void announce(std::string_view topic, const std::string& bytes);
  void note_left(const Idset& shells);
  // job_restart.cpp
  [[nodiscard]] bool wants(const Task& task, bool is_ordered) const;
  void send();
  void start_due();
  void start_alone();
  void start_tasks();
  void asked(const Message&);
  void answered(const Message&);
  void decided_together(const Message&);
  void refused(Rank);
  void granted(Rank, const Decision&);
  void drop(Rank);
  void renew(Task& task, std::uint32_t attempt, Witness::Why why, const std::string& restart);
  void ordered(const std::string&);
  void refuse(const Idset& ranks, const std::string& why);
  // job_spare.cpp
  [[nodiscard]] bool is_elsewhere(Rank rank) const { return job_.taskmap.node_of(rank) != shell_.process().id(); }
  [[nodiscard]] bool asks_for_spares() const { return changes().to_spare && job_.shells() > 1; }
  void wait_is_over(Rank);
  void wait_together_is_over();
  void ask_for_spares();
  void asked_for_spare(const std::string&);
  void placed(Rank, const elastic::SparePlaces&);
  void placed_together(const elastic::SparePlaces&);
  void take(const std::vector<job::Move>&);
  void signalled_late(Rank);
  // job_together.cpp
  [[nodiscard]] bool asks_for_node() const;
  void begin_together(const Decision& decision);
  void keep_together(Task& task);
  void end_together();
  void wait_for_others();
  void wait_for_delay();
  void drop_node();
  [[nodiscard]] std::optional<double> delay_together() const;  // all wait to start again
  void start_together();
  // job_elastic.cpp
  void moved(const std::string& bytes);
  void moved_with_all(const elastic::Replacement& what);
  void take_over();
  void put_ready();
  void leaving(const Idset& shells, Time grace);
  void grown(const elastic::Growth& growth);
  bool early(const Event& event);  // of one that joins: true: from here on it counts

  JobShell& shell_;
  World& world_;
  job::Job job_;
  elastic::Restarts restarts_;
  elastic::Recovery recovery_;
  std::unique_ptr<JobLeader> leader_;
  elastic::Roster roster_;
  std::map<Rank, Kept> kept_;
  std::vector<Rank> unsent_;
  std::map<Rank, exits::Record> before_answer_;
  std::optional<JobTogether> together_;
  Idset ordered_;  // that are being ended by nacre restart
  std::deque<job::Move> due_;
  // Tasks that have had a signal while they asked for a spare; that come here; those of them that have had one.
  Idset late_, coming_, late_coming_;
  std::vector<Rank> unplaced_;
  std::map<std::pair<Rank, std::uint32_t>, std::pair<Witness::Why, std::string>> why_;  // of the starts to come
  bool finished_ = false, is_starting_ = true, tasks_over_ = false;
  bool leaves_ = false, has_left_ = false, all_put_ = false, is_ready_ = false;
  bool joining_me_ = false, has_failed_ = false;  // of one that joins, as what follows
  elastic::Growth growth_;                        // so far
  bool is_mine_ = false;                          // the grow that has brought it is announced
  std::optional<Json> state_, ended_;
};

}  // namespace nacre::sim
