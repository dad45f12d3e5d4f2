// SPDX-License-Identifier: Apache-2.0
//
// One job as one shell sees it: the facts that do not change while it runs, except which shells the tasks are on
// (Move), and how often they were started.
#pragma once

#include "job/environment.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"
#include "job/resources.hpp"
#include "value/jobid.hpp"
#include "value/resizing.hpp"
#include "value/taskmap.hpp"

namespace nacre::job {

// How many tasks each node gets, and which cores and gpus. It is pure: only the jobspec and R decide, so every
// shell of a job gets the same result without asking others.
//
// A node offers as many slots as its cores (and gpus, if a slot has some) can hold. The slots, and then the tasks
// on the slots, are dealt one at a time, in rounds over the nodes by rank, so that both are as even as the nodes
// allow. job.cpp has the full rule.
class Options;

// The shell option `per-resource`: {"type": "core" | "node", "count": N}: N tasks (default 1) on each core or node
// of R, whatever the jobspec's count.
struct PerResource {
  enum class Type { core, node };
  Type type = Type::node;
  std::uint32_t count = 1;
  static Result<PerResource> from_json(const Json& option);  // an error starts with `per-resource`
};

struct NodeShare {
  std::uint32_t slots = 0;
  std::uint32_t tasks = 0;
};

// The shell option `oversubscribe`: slots need no cores of their own, and if they have none a line reports that.
// `share`, for jobs in which nobody has asked for it, is the same, but the line is only for terminals.
enum class Oversubscribe { no, yes, share };
Result<Oversubscribe> oversubscribe_of(const JsonAt& option);  // errors start with its path

// The shell option `spares`: how many of the last nodes of R get no task. 0 without it.
Result<std::uint32_t> spares_of(const Options& options);

// One Share for each of resources.nodes; a node may have no slots, or slots but no tasks. An error if R cannot hold
// the request (too few nodes, or too few slots on them), with what each host has and the remedy; or if a
// per-resource option makes more than Jobspec::kMaxCount tasks.
Result<std::vector<NodeShare>> distribute(const Jobspec& spec, const Resources& resources,
                                          const std::optional<PerResource>& per_resource = std::nullopt,
                                          bool oversubscribe = false);

// "8 tasks share 2 cores on n0" for the first node that has more slots than cores for them; otherwise "".
[[nodiscard]] std::string sharing_text(const Jobspec& spec, const Resources& resources,
                                       const std::vector<NodeShare>& shares);

// Tasks that start on another shell: their shell was lost, or they have ended and start again on a spare.
struct Move {
  value::Idset ranks;
  std::uint32_t from = 0, to = 0;  // shells
  std::uint32_t attempt = 1;       // which start of the tasks this is
};

// The job has started again with another number of tasks; each of these shells has as many as the others.
struct Resize {
  value::Idset shells;      // those with tasks since then
  std::uint32_t moves = 0;  // how many moves there were before
  value::Taskmap before = {};
};

struct Job {
  value::JobId id;
  std::uint32_t shell_rank = 0;
  Jobspec spec;
  Resources resources;
  std::vector<NodeShare> shares;  // by shell rank
  value::Taskmap taskmap;         // block, until a taskmap.* plugin returns another
  bool has_ascii_id = false;      // see f58()
  std::uint32_t spares = 0;       // how many of the last shells are spares: they have no tasks at first
  std::vector<Move> moves = {};   // in their order
  std::uint64_t restarts = 0;     // how often it has started tasks again, here or elsewhere
  value::Idset unfit = {};        // shells whose host is bad: they get no tasks
  // For tasks that were started again where they were: the start that counts, unless they have moved since.
  std::map<value::Idset::Id, std::uint32_t> starts = {};
  // How many cores each task gets, if its node has them; 0: an even share of the job's cores there.
  std::uint32_t cores_each = 0;
  std::uint32_t gpus_each = 0;
  std::uint32_t leader = 0;  // the shell that leads; it changes only when that is lost (on-leader-lost)
  // How many tasks each node with tasks has, if the job may start again on another number of nodes (resize);
  // otherwise 0.
  std::uint32_t tasks_each = 0;
  std::uint64_t task_limit = 0;      // if the job may be resized: it never has more tasks
  std::vector<Resize> resizes = {};  // in their order

  // Distributes the tasks and makes the block taskmap; it parses nothing. If the jobspec asks for more nodes than R
  // has beside the spares, it also means the spares, and fewer nodes get tasks. An error if `shell_rank` is not in
  // R, if R cannot hold the job, or if it has no node beside the spares.
  // A shell that joins a running job begins as `shell_rank` 0, and gets its own rank once the job has grown.
  static Result<Job> create(value::JobId id, std::uint32_t shell_rank, Jobspec spec, Resources resources,
                            const std::optional<PerResource>& per_resource, bool oversubscribe = false,
                            std::uint32_t spares = 0);

  // R is all that the nodes offer: nodes with slots keep what the slots ask for, the first of each kind, and offer
  // the rest (more_cores, more_gpus). This is done for gpus if the job asks for some, and for cores if `cores`.
  // `shares_cores`: tasks get as many cores as they ask for if there are enough, but R keeps all. Spares keep all.
  void take_what_was_asked(bool cores, bool shares_cores);
  // On this node the job has these cores, and not the first ones; as many as R has, otherwise R is not changed.
  void choose_cores(const value::Idset& ids);
  void choose_gpus(const value::Idset& ids);

  [[nodiscard]] bool leads() const { return shell_rank == leader; }
  // The shell that led from the start is lost, and another one leads.
  [[nodiscard]] bool has_next_leader() const { return leader != 0; }
  [[nodiscard]] std::uint32_t shells() const { return static_cast<std::uint32_t>(resources.nodes.size()); }
  [[nodiscard]] std::uint32_t nodes() const { return shells() - spares; }  // nodes that may have tasks
  [[nodiscard]] bool is_spare(std::uint32_t shell) const;                  // it has no tasks, and may get some
  // False: it was to join later (grow), but has not come.
  [[nodiscard]] bool has_come(std::uint32_t shell) const { return !resources.nodes[shell].cores.empty(); }
  [[nodiscard]] value::Idset shells_that_came() const;
  [[nodiscard]] value::Idset spare_shells() const;
  [[nodiscard]] std::uint64_t tasks() const { return taskmap.tasks(); }
  // How many tasks the job may ever have; tasks(), unless it may be resized.
  [[nodiscard]] std::uint64_t most_tasks() const { return tasks_each == 0 ? tasks() : task_limit; }
  // The nodes that the tasks are on, or were to be on at the start.
  [[nodiscard]] std::uint32_t nodes_in_use() const;
  [[nodiscard]] value::Idset shells_in_use() const;
  [[nodiscard]] value::Idset all_ranks() const;
  // Adds nodes of shells that have joined; they are the last ones, and spares. A node without cores has not come.
  void grow(std::vector<NodeResources> more);
  // Lets the job start again with other numbers of tasks: with the numbers of nodes that the jobspec asks for, a
  // range, and as many tasks on each as now. An error: the jobspec asks for one number of nodes, or has tasks on
  // them in another way.
  Result<void> allow_resizes();
  // Which of `shells`, which can have tasks, would get some: as many as the jobspec's range allows, first those
  // that have some now. ENOSPC: there are too few.
  [[nodiscard]] Result<value::Idset> shells_for(const value::Idset& shells) const;
  // All tasks start again on these shells, with ranks from 0 on in the shells' order; this is one restart. Their
  // starts count as later than all before.
  void resize(const value::Idset& shells);
  // From now on the tasks are on the new shell; this is a restart.
  void move(Move tasks);
  // These tasks start again where they are; this is one restart.
  void start_again(const value::Idset& ranks);
  [[nodiscard]] std::uint32_t attempt_of(value::Idset::Id rank) const;  // which of its starts counts, from 1
  // Whether the task is on this shell, or was.
  [[nodiscard]] bool has_had(std::uint32_t shell, value::Idset::Id rank) const;
  // The shell had tasks, and the job was resized without it.
  [[nodiscard]] bool is_left_out(std::uint32_t shell) const;
  // Whether tasks that were on this shell have gone to another one.
  [[nodiscard]] bool tasks_have_left(std::uint32_t shell) const;
  // The shell that had tasks from the start and that this one has replaced, perhaps by way of others; otherwise
  // itself. After a resize: that shell's place among those that have tasks since then.
  [[nodiscard]] std::uint32_t stands_for(std::uint32_t shell) const;
  // The id in F58, as people and tasks see it. It begins with f, and not with ƒ, if FLUX_F58_FORCE_ASCII is set, in
  // the job's environment or the shell's, or if the job's environment has a locale (LC_ALL, LC_CTYPE or LANG) that
  // is not of UTF-8.
  [[nodiscard]] std::string f58() const { return has_ascii_id ? id.f58_plain() : id.f58(); }
  // attributes.system.job.name, else the name of the program without directories.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const NodeResources& node() const { return resources.nodes[shell_rank]; }
  // Of this shell's host; "": R does not name it, or there is no such shell.
  [[nodiscard]] std::string hostname_of(std::uint32_t shell) const {
    return shell < resources.nodes.size() ? resources.nodes[shell].hostname : std::string();
  }

  // As described in flux_shell_get_jobspec_info(3) and flux_shell_get_rank_info(3). An error if there is no such
  // shell.
  [[nodiscard]] Json jobspec_info() const;
  [[nodiscard]] Result<Json> rank_info(std::uint32_t shell_rank) const;
};

// The job's variables of flux-environment(7), each also under NACRE_. `tmpdir` may be "".
void set_size_variables(Environment& env, const Job& job);  // those that a resize changes
void set_job_variables(Environment& env, const Job& job, const std::string& tmpdir);
// The variable whose value, "JOBID.RANK", marks all processes that belong to one shell of the job and end with it.
inline constexpr const char* kShellMark = "NACRE_SHELL_ID";
[[nodiscard]] std::string shell_mark(const value::JobId& id, std::uint32_t shell_rank);
// Sets a task's own variables: FLUX_TASK_RANK, FLUX_TASK_LOCAL_ID and the same under NACRE_.
void set_task_variables(Environment& env, std::uint64_t rank, std::uint32_t local_id);
// For tasks that may be started again: NACRE_TASK_TRY, from 1, and NACRE_JOB_RESTARTS, the job's number of
// restarts.
void set_attempt_variables(Environment& env, std::uint32_t attempt, std::uint64_t restarts);

// How many of so many tasks on this shell run at the same time, by the option at-most.
[[nodiscard]] Result<std::size_t> tasks_at_once(const Options& options, const Job& job, std::size_t tasks);

// Chooses the shells that leave when a job is ordered to shrink.

// `gone`: shells that are not in the job any more. `leaving`: shells that are about to leave; an order by count
// chooses none of them. EINVAL: there is no such shell or host, or not that many; all of them have gone; shell 0 is
// one of them. EBUSY: they have tasks, and the order refuses these.
Result<value::Idset> leavers(const value::ShrinkOrder& order, const Job& job, const value::Idset& gone,
                             const value::Idset& leaving);

// The hosts of these shells that have a name.
[[nodiscard]] value::Hostlist hosts_of(const value::Idset& shells, const Job& job);

}  // namespace nacre::job
