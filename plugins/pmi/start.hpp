// SPDX-License-Identifier: Apache-2.0
//
// A start of all tasks of the job together, for PMI: at the job's begin, and whenever all of them start again. What
// the processes are told of the job is fixed at one place in the order of the announcements, so that it is the same
// on all shells; shells that have joined while the job ran count from then on.
#pragma once

#include "job/environment.hpp"
#include "plugin/host.hpp"
#include "plugins/pmi/group_fences.hpp"
#include "plugins/pmi/options.hpp"
#include "pmi/key_exchange.hpp"
#include "pmi/kvs.hpp"
#include "pmi/server.hpp"
#include "task/command.hpp"

namespace nacre::plugins {

// PMI keys of a process group between the nodes of a job. Each barrier of the group is a collective of the shells,
// to which each gives the keys that its processes have put since the last one.
class PmiExchange final : public pmi::KeyExchange {
 public:
  // Called before a barrier opens, with the ranks that have gone without finalize from nodes that abstain, and the
  // ranks that were started again alone on another shell and have ended. Returns whether it may open without them.
  // If not, the job is being ended.
  using MayOpen = std::function<bool(const value::Idset& missing, const value::Idset& absent)>;

  struct Barriers {
    std::string name;         // of the collectives, before a dot and the number of each; no other exchange has it
    std::uint32_t last = 0;   // the shells up to this one take part, this one among them
    std::uint64_t start = 1;  // of the tasks, as PmiStart::number
    std::function<value::Idset(std::uint32_t shell)> ranks_on = {};  // the group's processes on a shell
  };

  // `most`: the limit for the keys of one node, in bytes. `missed` is called when the others have been in a barrier
  // from which this node abstained. `parts` outlives it.
  PmiExchange(plugin::Host& host, std::uint64_t most, std::function<void()> missed, MayOpen may_open,
              Barriers barriers, PmiGroupParts& parts);
  ~PmiExchange() override { parts_.ignore(barriers_.name); }

  void fence(const pmi::EntryRefs& mine, Done done) override { give(pmi::encode_refs(mine), std::move(done)); }
  void fence_group(const pmi::BarrierGroup& group, const pmi::EntryRefs& mine, Done done) override;
  void when_awaited(Awaited awaited) override { groups_.when_awaited(std::move(awaited)); }
  void shell_gone(std::uint32_t shell) { groups_.gone(shell); }  // it has left, or is lost and the job goes on
  // No process of this node will enter a barrier again, and the other nodes do not wait for it. `missing`: the
  // ranks of processes that have not finalized.
  void abstain(const value::Idset& missing);
  // Until it is decided what becomes of the tasks of this lost shell no barrier opens without them.
  void hold(std::uint32_t shell) { held_for_.insert(shell); }
  void release(std::uint32_t shell);
  // These ranks start again alone on another shell, where they are no processes of the group. No barrier opens as
  // long as they may still call PMI, which would make all tasks start again.
  void moved(const value::Idset& ranks) { moved_.insert(ranks); }
  void moved_ended(std::uint32_t rank);  // it has ended for good
  void moved_gone(const value::Idset& ranks) {
    moved_ = moved_ - ranks;
  }                                                  // they are gone with their shell;
                                                     // release() settles
  [[nodiscard]] bool over() const { return over_; }  // all nodes abstain
  // The number of the barrier that this node entered last, or from which it abstained: equal on all nodes, and used
  // once.
  [[nodiscard]] std::uint64_t number() const { return barriers_.start << 32U | count_; }

 private:
  void give(std::string mine, Done done);
  void give_nothing();
  void answered(const Result<plugin::Gathered>& gathered, bool abstained, const Done& done);
  [[nodiscard]] bool opens(const pmi::BarrierGroup& group) const;
  void settle();
  [[nodiscard]] static Result<value::Idset> missing_in(const plugin::Gathered& gathered);
  [[nodiscard]] Result<pmi::Entries> others_in(const plugin::Gathered& gathered) const;

  plugin::Host& host_;
  std::uint64_t most_;
  std::function<void()> missed_;
  MayOpen may_open_;
  Barriers barriers_;
  PmiGroupParts& parts_;
  PmiGroupFences groups_;
  std::string nothing_;  // what this node gives once it abstains
  std::uint64_t count_ = 0;
  bool waiting_ = false;
  bool abstains_ = false;
  value::Idset held_for_;  // shells
  value::Idset moved_;     // ranks; those that have ended are in absent_
  value::Idset absent_;
  std::function<void()> held_;  // what is to be done once nothing holds the barriers
  bool over_ = false;
  plugin::Registration answer_;  // for the current barrier
};

struct PmiStart {
  std::uint64_t number = 1;  // larger with each
  value::Taskmap taskmap;
  bool takes_part = true;  // this shell does
  std::uint32_t last = 0;  // the last shell that does
  // How many tasks of this kind the nodes with tasks could hold, counting nodes that were to have tasks at the
  // job's begin; none: no more than the job has, so that a program finds no number, as under Hydra.
  std::optional<std::uint32_t> universe_size = {};
  // How deep the tasks' instance of Flux is, if they are one; none: this is no job of an instance, and theirs has
  // no parent.
  std::optional<std::size_t> instance_level = {};

  // In shell.init. A shell that joins a job that runs takes no part.
  static PmiStart of_job(plugin::Host& host);
  // Called in job.tasks-restart, for all tasks.
  static PmiStart again(plugin::Host& host);

  [[nodiscard]] std::vector<std::uint32_t> ranks_here(plugin::Host& host) const;  // in the order of the tasks
  // The tasks of this shell that are processes of PMI. Others have come to it since.
  [[nodiscard]] pmi::ClientGroup group(plugin::Host& host, const PmiOptions& options, pmi::Quota& quota) const;
  // What clients find in the space of keys.
  void set_attributes(pmi::Server& server, const PmiOptions& options) const;
  [[nodiscard]] PmiExchange::Barriers barriers() const;  // of the tasks; if this shell takes part
};

// Sets the key by which a group's clients find which of them share a node, unless `pmi-simple.nomap` or its length
// forbids it.
void set_process_map(pmi::Server& server, const value::Taskmap& map, const PmiOptions& options);

// PMI-1 has a command for this size, PMI-2 this attribute of the job.
void set_universe(pmi::Server& server, const std::optional<std::uint32_t>& size);

// What tasks find of PMI in their environment besides their connection, and warnings about what they do not find.

// For programs that load a library of PMI that the environment names; `is_first`: all programs find this library
// first.
void name_library(job::Environment& environment, bool is_first);
// What Open MPI needs whichever way its processes come to their ranks: by PMIx, or, as where Python loads it, by
// PMI-1 through nacre's libpmi. What the job has set already stays.
//
// Open MPI names its segments of shared memory by host, job and local rank. The names of two shells of a host would
// collide, so each shell's segments are in its own directory. Called in shell.init, once that directory is there.
void separate_segments(plugin::Host& host);

// For tasks that need no libpmi of nacre's. By FLUX_JOB_ID Open MPI 4 believes that there is one: then its mpirun
// crashes, and a program by itself fails. `has_pmix`: the tasks have a PMIx server. What the job has set already
// stays.
void leave_alone(job::Environment& environment, bool has_pmix);
// As mpirun does it: ranks that share cores yield them to each other where they would spin.
void let_yield(plugin::Host& host, task::Command& command);
// The leader warns about those of `names` that are no interface, and that no plugin has.
void warn_of_unknown(plugin::Host& host, const plugin::Plugin& plugin, const std::vector<std::string>& names);

// The names that processes publish (MPI_Publish_name) in a job of several shells: a name that is published or
// unpublished on one shell is so on all.

// From now on changes of `names` by processes of this shell are announced. All have to outlive `names`' use.
void announce_names(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names);

// Takes an announcement of another shell's change; ignores any other.
void take_announced_name(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names,
                         std::string_view topic, std::string_view bytes);

}  // namespace nacre::plugins
