// SPDX-License-Identifier: Apache-2.0
//
// Which shells a job has, as one shell knows it from the log. A shell may be lost at any time. A shell that is
// asked to leave is about to leave, and has left once it is taken out; if it is lost meanwhile it also counts as
// having left.
//
//   (grow) -> joining -> stays -> leaving -> left
#pragma once

#include "job/job.hpp"

namespace nacre::elastic {

class Roster {
 public:
  using Idset = value::Idset;
  using Id = Idset::Id;

  void note_lost(const Idset& shells) { lost_.insert(shells); }
  void note_leaving(const Idset& shells) { leaving_.insert(shells); }
  void note_left(const Idset& shells) { left_.insert(shells); }
  // Of a grow, `come` have come, and `missing` have not. Returns the shells that get ready now, without any that
  // have gone.
  Idset note_joining(const Idset& come, const Idset& missing);
  void note_ready(Id shell) { joining_.remove(shell); }

  [[nodiscard]] const Idset& lost() const { return lost_; }
  [[nodiscard]] const Idset& left() const { return left_; }
  [[nodiscard]] const Idset& leaving() const { return leaving_; }  // asked to leave, whatever has become of them
  [[nodiscard]] Idset gone() const { return lost_ | left_; }
  // It is in the job, and stays: so it may get tasks.
  [[nodiscard]] bool stays(Id shell) const { return !(lost_ | left_ | leaving_ | joining_).contains(shell); }
  // It has been asked to leave, whatever has become of it.
  [[nodiscard]] bool is_to_leave(Id shell) const { return leaving_.contains(shell); }
  // The same, but it is not gone yet.
  [[nodiscard]] bool leaves(Id shell) const { return (leaving_ - gone()).contains(shell); }

  // For a shell that joins, which adds this to what it knows: {"lost": IDSET, "left", "leaving", "joining"}. Errors
  // name the place.
  [[nodiscard]] Json json() const;
  Result<void> add(const JsonAt& at);

 private:
  static auto description();
  Idset lost_, leaving_, left_, joining_;
};

// Shrinks, on the leader: which shells are about to leave, and who waits for that. It has no clock and no links:
// the owner reports what happens, and asks what is to be done.
//
//   asked -> leaving: its tasks end, and its output comes -> ready, lost, or overdue -> taken out -> gone
//
// Shells that are asked for together leave together. A shell that two orders name leaves once, and both orders get
// its end.
class Shrinks {
 public:
  using Order = std::uint64_t;  // from 1
  using Idset = value::Idset;

  // Opens an order for these shells, at least one, which are not gone. `fresh` gets the shells that have to begin
  // to leave now: they are a batch with this number.
  Order open(const Idset& shells, Idset& fresh);

  void ready(std::uint32_t shell);  // it has ended its tasks, and put out what they have written
  // It is out of the job; `has_ended`: with its tasks, otherwise it may just not answer. False: it is not about to
  // leave, so it is a loss.
  bool lost(std::uint32_t shell, bool has_ended);
  void overdue(Order batch);  // nobody waits for shells of this batch any more
  // The next shells that can be taken out of the job, once.
  std::optional<Idset> take_ready();
  void ended(const value::Shrunk& shrunk);  // they have been taken out
  // An order that has ended, once.
  std::optional<std::pair<Order, value::Shrunk>> take_ended();

  [[nodiscard]] bool is_open() const { return !orders_.empty(); }
  [[nodiscard]] bool is_leaving(std::uint32_t shell) const { return leaving_.contains(shell); }
  // Shells that are no longer in the job, or about to leave it.
  [[nodiscard]] Idset left() const { return leaving_ | over_; }

 private:
  struct Batch {
    Idset shells;   // those that have not been taken out
    Idset waiting;  // of these: those that are not ready
  };

  std::map<Order, Idset> orders_;   // by number: the shells of each
  std::map<Order, Batch> batches_;  // by the order that has opened it
  Idset leaving_;                   // asked to leave, and not gone
  Idset over_;
  Idset unconfirmed_;  // of those in over_
  Order last_ = 0;
};

// Shells that have joined a running job: each shell of the job learns of them by the leader's announcement, in the
// order of the log; shells that join later learn of them from their launch record.

// From the leader: these shells have come (Growth, as JSON). From here on all shells count them.
inline constexpr const char* kGrownTopic = "shell.grown";
// From the leader, for the shells of the last kGrownTopic: the job's state at that place.
inline constexpr const char* kStateTopic = "shell.grown-state";
// From a newcomer, once it is a member: {"shell", "offer"}; later that it is ready, {"shell"}, or has failed, with
// "error".
inline constexpr const char* kOfferTopic = "shell.grown-offer";
inline constexpr const char* kReadyTopic = "shell.grown-ready";
// Of a newcomer that has come to lead, where srun has started the first shells: launch::NextLeader.
inline constexpr const char* kLeadsTopic = "shell.grown-leads";

// By rank, without gaps. For a shell that has not come the host is known, and no cores.
struct Growth {
  struct Shell {
    std::uint32_t rank = 0;
    std::string hostname;
    value::Idset cores, gpus;
    bool has_come = true;
    std::optional<std::uint32_t> pod = std::nullopt;  // the pod of this index, which has come again
  };
  std::vector<Shell> shells;

  // [[RANK, HOST, CORES, GPUS, HAS_COME, POD], ...]
  [[nodiscard]] Json json() const;
  // Errors name the place.
  static Result<Growth> parse(const JsonAt& at);
  [[nodiscard]] bool has(std::uint32_t rank) const;
};

// The state of a job now, for a shell that joins it: the moves of its tasks, their starts, the restarts.

// {"moves": [[RANKS, FROM, TO, TRY], ...], "starts": [[RANK, TRY], ...], "restarts": N, "unfit": SHELLS,
// "resizes": [[SHELLS, MOVES BEFORE IT], ...]}
[[nodiscard]] Json job_state(const job::Job& job);
// Notes that state in `job`, in which nothing of it has been noted yet. Errors name the place.
Result<void> take_job_state(const JsonAt& at, job::Job& job);

}  // namespace nacre::elastic
