// SPDX-License-Identifier: Apache-2.0
//
// What one shell makes of the log as tasks start again, and shells leave, are lost and join: core/shell_group.cpp,
// shell_shrink.cpp and shell_grow.cpp without plugins and processes. What is sent is in the real
// texts.
#pragma once

#include <memory>
#include <string>

#include "elastic/roster.hpp"
#include "job_newcomer.hpp"
#include "job_removal.hpp"
#include "job_replica.hpp"
#include "job_restart.hpp"

namespace nacre::sim {

class JobLeader;
class JobShell;

class JobElastic {
 public:
  // `before`: as of JobShell.
  JobElastic(JobShell& shell, const elastic::Growth* before);
  ~JobElastic();

  // ---- the log
  void deliver(const Entry& entry);
  void lost(Id shell);
  void note_left(const Idset& shells);
  void agree(Seq seq);  // all shells have the same by now

  [[nodiscard]] JobReplica& replica() { return replica_; }
  [[nodiscard]] JobRemoval& removal() { return removal_; }
  [[nodiscard]] JobNewcomer& newcomer() { return newcomer_; }
  [[nodiscard]] JobRestart& restart() { return restart_; }
  [[nodiscard]] JobLeader* leader() { return leader_.get(); }
  [[nodiscard]] Idset unfinished_on(Id shell) const;  // as far as the leader knows
  [[nodiscard]] std::string open() const;             // what is open; "": nothing

 private:
  using Message = elastic::RestartMessage;

  void announced(const std::string& topic, const std::string& bytes);
  // ---- tasks
  void asked(const Message& message);
  void answered(const Message& message);
  void decided_together(const Message& message);
  void asked_for_spare(const std::string& bytes);
  void ordered(const std::string& bytes);
  void moved(const std::string& bytes);
  void moved_with_all(const elastic::Replacement& what);
  void note_moved(const job::Move& move);  // leader
  // ---- shells
  void leaving(const Idset& shells, Time grace);

  JobShell& shell_;
  JobReplica replica_;
  JobRemoval removal_;
  JobNewcomer newcomer_;
  JobRestart restart_;
  std::unique_ptr<JobLeader> leader_;
};

}  // namespace nacre::sim
