// SPDX-License-Identifier: Apache-2.0
//
// What `nacre doctor` concludes from the facts about all tasks of a job, by rule, each with its evidence. Pure.
#pragma once

#include "doctor/collectives.hpp"
#include "doctor/facts.hpp"
#include "doctor/nccl_ras.hpp"
#include "doctor/pace.hpp"

namespace nacre::doctor {

// A shell that has not given the facts of its tasks.
struct Absent {
  std::uint32_t shell = 0;
  std::string host;
  value::Idset ranks;
  bool is_lost = false;  // it is not in the job any more; otherwise it has not answered in time
};

// All that was found in one look at a job.
struct Examination {
  std::uint64_t tasks = 0;        // of the job
  double interval = 0;            // seconds between the two looks at each process
  std::vector<TaskGroup> groups;  // folded()
  std::vector<Absent> absent;
  std::vector<NodePace> nodes;             // those that have answered
  std::vector<CollectiveLog> collectives;  // folded()
  std::vector<RasFinding> ras;             // folded()
  value::Idset ended_well, ended_badly;
  std::vector<std::string> notes;  // what could not be found out, and why: for people
  std::function<std::string(std::uint32_t rank)> host_of = [](std::uint32_t) { return std::string(); };

  [[nodiscard]] Json json() const;                     // without groups, nodes, collectives, RAS and hosts
  static Result<Examination> parse(const Json& json);  // without those members
};

struct Verdict {
  enum class Kind : std::uint8_t {
    no_answer,   // a shell has not answered: it is frozen, or its host is
    missing,     // others wait, and this task is elsewhere and does not get on
    collective,  // it has not called the collective in which others wait, or calls another one
    deadlock,    // all of its threads wait for each other
    stuck,       // in the kernel
    stopped,     // by a signal, a debugger, or a freezer
    pipe,        // it reads a pipe that nobody will write to, or writes to one that nobody will read
    input,       // it reads the job's standard input
    works,       // it gets on, and the others wait
    spins,       // busy, and does nothing that can be seen
    slow_node,   // its tasks get on far more slowly than those of other nodes
    ended,       // has ended well while the others wait
    several,     // groups, none of which can be blamed; `ranks`: those that wait while most are busy
    alike,       // all are in the same place
    fine,        // nothing shows that anything hangs
  };
  Kind kind = Kind::fine;
  value::Idset ranks;
  std::string text;      // one line, without the evidence
  std::string evidence;  // the facts behind it; "" if the text has them

  [[nodiscard]] Json json() const;
  static Result<Verdict> parse(const Json& json);
  [[nodiscard]] std::string line() const;  // "=> TEXT: EVIDENCE"
};

// The verdicts that follow from absent shells alone.
[[nodiscard]] std::vector<Verdict> verdicts_of_absent(const std::vector<Absent>& absent);

// At least one, the most certain first.
[[nodiscard]] std::vector<Verdict> verdicts(const Examination& examination);

// Puts the findings of `nacre doctor` into words. Pure.

// "reads a pipe that nobody writes to", "is in PMI barrier 2"; `several`: "read a pipe ...".
[[nodiscard]] std::string what(const Fact& fact, bool several = false);

// The hosts of these ranks, in their order; none: they are more than 4, or many ranks, or have no names.
[[nodiscard]] std::vector<std::string> hosts_of(const value::Idset& ranks, const Examination& examination);

// "rank 3 (n0)", "ranks 0-2,4 (n0, n1)": at most 4 hosts are named. Hosts without a name are left out.
[[nodiscard]] std::string who(const value::Idset& ranks, const Examination& examination);

// "9 s", "12 min", "3.5 h".
[[nodiscard]] std::string time_words(double seconds);

// The whole text: a line for each group, then the verdicts ("=> ..."), and notes.
struct TextOptions {
  bool by_rank = false;       // a line for each rank: each group has one rank
  std::size_t columns = 160;  // bytes of one line, beyond which a set of ranks is cut
};
[[nodiscard]] std::string text_of(const Examination& examination, const std::vector<Verdict>& verdicts,
                                  const TextOptions& options);

}  // namespace nacre::doctor
