// SPDX-License-Identifier: Apache-2.0
//
// Which clients have left a process group, in which way, and what follows for the others. Without `fault-tolerance`
// the job ends; with it, the lost are listed under a key, a signal is sent to clients that asked for it, and
// barriers go on without the lost.
#pragma once

#include "plugin/host.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/options.hpp"

namespace nacre::plugins {

// The processes of a group, by client.
class PmiProcesses {
 public:
  virtual ~PmiProcesses() = default;
  [[nodiscard]] virtual std::string name_of(std::uint32_t client) const = 0;  // for messages
  // The rank of the task that the client is; none: it was spawned.
  [[nodiscard]] virtual std::optional<std::uint32_t> task_of(std::uint32_t client) const = 0;
  [[nodiscard]] virtual bool runs(std::uint32_t client) const = 0;
  virtual void kill(std::uint32_t client, int signum) = 0;
};

class PmiDepartures {
 public:
  // All of them have to outlive this object.
  PmiDepartures(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options,
                PmiProcesses& processes)
      : host_(host), plugin_(plugin), options_(options), processes_(processes) {}

  // The callbacks about departures, for a group that is attached once it is made.
  PmiGroup::Callbacks callbacks();
  // Gives the group's clients the list of the lost.
  void attach(PmiGroup& group);

  // `on_lost` is called with the rank of each process that is lost here, if the group has processes on other nodes,
  // to notify those.
  void when_lost(std::function<void(std::uint32_t rank)> on_lost) { on_lost_ = std::move(on_lost); }
  // A process on another node is lost.
  void lost_elsewhere(std::uint32_t rank);
  // It is lost with its shell, and the job goes on, even where the loss of a single process would end the job.
  void lost_with_shell(std::uint32_t rank);
  // These processes have left on other nodes while others are in a barrier. Returns whether the barrier may go on
  // without them; if so, they are in the list of the lost.
  bool missing_elsewhere(const value::Idset& ranks);
  // The same for processes that were started again on another shell and have ended without PMI; if they are
  // missing, the job is ended.
  bool absent_elsewhere(const value::Idset& ranks);
  // Processes of other nodes have been in a barrier that none of this node will enter.
  void missed_barrier() { nobody_is_missing(nullptr); }

  // Called once all processes of this node have ended: the ranks that have not finalized, for which a barrier of
  // the others may not open.
  [[nodiscard]] value::Idset missing_here() const;
  // This shell is about to leave the job, or the group is given up: how its processes end from now on has no
  // consequence for the others.
  void shell_leaves() { shell_leaves_ = true; }
  // A process has ended that starts again, and has not called init.
  void starts_again(std::uint32_t client) {
    leaving_.erase(client);
    aborted_.erase(client);
  }

  // All processes are about to end, and to start again. From here on a new, empty list of the lost is used.
  void all_start_again();
  // A new group, of processes that start, is about to be attached.
  void forget();

  // The process has ended.
  void exited(std::uint32_t client, const value::WaitStatus& status);

 private:
  void aborted(const pmi::Abort& abort);
  void end_job(std::uint32_t client, const value::WaitStatus& status, std::string_view when);
  [[nodiscard]] std::optional<exits::TaskEnd> as_cause(std::uint32_t client) const;
  void dropped_or_left(std::uint32_t client);
  void await_ends();
  void still_there();
  bool nobody_is_missing(const std::vector<std::uint32_t>* members);
  void lost(std::uint32_t client);
  [[nodiscard]] const pmi::ClientProgress& client_of(std::uint32_t client) const {
    return group_->server().clients()[client];
  }
  [[nodiscard]] bool is_dead(std::uint32_t rank) const;
  [[nodiscard]] bool goes_on_without(std::uint32_t rank) const;
  void note_dead(std::uint32_t rank);
  void publish_dead();
  [[nodiscard]] bool is_quiet() const { return shell_leaves_ || all_start_again_; }

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  PmiGroup* group_ = nullptr;
  PmiProcesses& processes_;
  std::function<void(std::uint32_t)> on_lost_;
  std::vector<std::uint32_t> dead_;  // ranks, in the order in which they were lost, as known here
  bool list_is_full_ = false;        // the list that clients see has no room for more
  std::map<std::uint32_t, plugin::RaisedException> aborted_;  // by client, until they have ended
  std::set<std::uint32_t> leaving_;  // clients whose connection is closed without finalize, and that run
  std::vector<std::pair<std::uint32_t, value::WaitStatus>> absent_;  // clients that ended without init
  std::optional<event::Timer> timer_;                                // for leaving_
  bool barrier_waits_ = false;  // until it is known how clients in leaving_ end
  bool shell_leaves_ = false;
  bool all_start_again_ = false;
  bool ends_ = false;  // the job is being ended because of a client
};

}  // namespace nacre::plugins
