// SPDX-License-Identifier: Apache-2.0
//
// Nodes that the leader gets from Slurm for shells that join its job, in allocations beside that in which the job
// was started. All have one name, nacre-JOBID. An allocation on which no shell is left is given back, one that has
// lost some of its shells gets smaller, and the end of the job ends all. Requests come one after another, as each
// leaves out the nodes that are there already.
//
//   asked -> granted -> given back
//         -> refused, or withdrawn after its time
#pragma once

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "task/subprocess.hpp"

namespace nacre::core {

// The commands of Slurm by which a job gets another allocation, beside that in which it was started, and ends it.
struct SlurmRequest {
  std::string job;   // the allocation that the other one is to be like: its partition, account, CPUs a node, ...
  std::string name;  // of the new one
  std::uint64_t count = 1;  // nodes
  value::Hostlist hosts;    // these; empty: any
  value::Hostlist without;  // none of these
};

using SlurmCommand = task::CommandRun::What;

// Waits until Slurm gives the nodes, and writes the allocation's id and its hosts: `8 node[2-3]`. Its time limit is
// what is left of that of `job`.
[[nodiscard]] SlurmCommand slurm_request(const SlurmRequest& request);
// Withdraws a request of this name that is still pending, and writes why it was.
[[nodiscard]] SlurmCommand slurm_withdraw(const std::string& name);
[[nodiscard]] SlurmCommand slurm_end(const std::string& allocation);
// Withdraws what is pending of this name, and lists what is there, by lines: `8 node[2-3]`.
[[nodiscard]] SlurmCommand slurm_list(const std::string& name);
// Ends all that has this name, pending or not.
[[nodiscard]] SlurmCommand slurm_end_all(const std::string& name);
// Ends an allocation that the job has got, and whose leader is lost: run by a shell there, in the step `step`, as
// the last thing that it does. The shell with the lowest step waits until no other is left, and the others leave
// at once; nothing is done if the allocation has another name, or if others are there after a minute.
[[nodiscard]] SlurmCommand slurm_end_left(const std::string& allocation, const std::string& name,
                                          const std::string& step);
// What starts a shell on a host of an allocation, called as ssh is.
[[nodiscard]] std::vector<std::string> slurm_agent(const std::string& allocation);

class SlurmNodes {
 public:
  // Takes care that this command is run should the shell be killed; empty: none.
  using WhenKilled = std::function<void(const std::vector<std::string>& command)>;

  // `host` has to outlive it. `job`: the allocation in which the job was started. `is_led_on`: another shell leads
  // the job once this one is killed, and has the allocations.
  SlurmNodes(plugin::Host& host, std::string job, bool is_led_on, WhenKilled when_killed);

  struct Wanted {
    std::uint64_t count = 1;
    value::Hostlist hosts;    // these; empty: any
    value::Hostlist without;  // none of these
    event::Seconds wait{};    // how long Slurm has
  };
  struct Nodes {
    std::vector<std::string> hosts;
    std::vector<std::string> agent;  // starts shells there (launch::agent_command)
  };
  // `done` is called once, perhaps before this returns. Its error is for the requester.
  void ask(Wanted wanted, std::function<void(Result<Nodes>)> done);

  // Takes on the allocations that the leader before had got; the job has shells on the hosts `here`.
  void adopt(const value::Hostlist& here);
  // Those of `hosts` that are of these allocations.
  [[nodiscard]] value::Hostlist held(const value::Hostlist& hosts) const;
  // No shell is left on `hosts`. `done`, which may be null, gets the outcomes one after another, as
  // plugin::NodeRelease has them, and then null.
  void give_back(const value::Hostlist& hosts, std::function<void(const Json& outcome)> done);

  void stop();         // nothing more is asked for, and what is pending is withdrawn
  Result<void> end();  // as stop(), and ends all allocations; runs the loop until that is done

 private:
  struct Request {
    Wanted wanted;
    std::function<void(Result<Nodes>)> done;
  };
  struct Told {
    SlurmCommand command;
    task::CommandRun::WhenDone done;
  };

  void begin();
  void withdraw();
  void settle();
  Result<Nodes> granted(const std::string& text);
  [[nodiscard]] Error not_granted(const Wanted& wanted) const;
  void tell(SlurmCommand command, task::CommandRun::WhenDone done);
  void tell_next();
  void watch() const;

  plugin::Host& host_;
  std::string job_, name_;
  bool is_led_on_;
  WhenKilled when_killed_;
  task::CommandRun asking_, telling_;
  std::deque<Request> requests_;               // the first one is open
  std::optional<Result<std::string>> answer_;  // of salloc
  std::optional<event::Timer> time_;           // that Slurm has for it
  bool is_withdrawn_ = false;
  int withdrawing_ = 0;                                 // how many commands have not ended
  std::string reason_;                                  // why it was pending
  std::deque<Told> told_;                               // the first one runs
  std::map<std::string, value::Hostlist> allocations_;  // by id: the hosts that have not been given back
  bool stopped_ = false;
  Result<void> ended_;
};

}  // namespace nacre::core
