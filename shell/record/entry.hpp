// SPDX-License-Identifier: Apache-2.0
//
// The record of a job by which it can be found while it runs, and by which its end can be read afterwards: one JSON
// object in a file of its own. doc/control.md lists the members. It has no secrets: neither the job's secret nor
// its environment.
#pragma once

#include "base/json.hpp"
#include "exits/policy.hpp"
#include "value/jobid.hpp"

namespace nacre::record {

// Where a process runs. Only a process at the same place can find out whether that process still runs.
struct ProcessPlace {
  std::string host;
  std::string machine;     // digits that only this host has
  std::string boot;        // digits that only this boot of the host has; empty: not known, without /proc
  std::uint64_t pids = 0;  // the PID namespace, as the kernel numbers it
  bool operator==(const ProcessPlace&) const = default;
};

// The manager that has started the shells.
struct Manager {
  std::string kind = "none";  // slurm, flux; none: nacre itself, or another
  std::string job;            // the job's id there; "": it has none
  std::string step;
  bool operator==(const Manager&) const = default;
};

// How a job has ended.
struct EntryEnd {
  double time = 0;             // seconds since the Epoch
  int code = 0;                // 0..255
  bool vanished = false;       // the leader or its host was killed: the code is not known
  std::string cause;           // one line; "": the job has ended by itself
  Json exits = Json::array();  // [{"record": text, "count": tasks, "ranks": idset}, ...]; a long idset is left out
  Json report;  // in the form of -o report=FILE, at most kMaxReport bytes of text; null: there is none
  // What the tasks have used, as in nacre-report(1), shortened by its writer; only totals if it was not measured;
  // null: nothing is known.
  Json usage = nullptr;
  // The timeline's summary, as nacre-timeline(1) has it, with the trace's file; null: it was not kept.
  Json timeline = nullptr;
  // What another policy has to know, from exits::summary(); null: it was not recorded.
  Json rule = nullptr;
  std::uint64_t lost_output = 0;  // bytes that could not be written to the job's file of output
  double ran = 0;                 // seconds from the job's start, by a clock that nobody sets; 0: not known
  bool operator==(const EntryEnd&) const = default;
};

struct JobEntry {
  static constexpr std::size_t kMaxText = std::size_t{64} << 10;    // bytes of an entry
  static constexpr std::size_t kMaxReport = std::size_t{32} << 10;  // bytes of a report
  static constexpr std::size_t kMaxCommand = std::size_t{4} << 10;  // bytes of the command's words
  static constexpr std::size_t kMaxRanks = std::size_t{8} << 10;    // bytes of all idsets
  static constexpr std::size_t kMaxNotes = 8;                       // lines, each as long as a cause
  static constexpr std::size_t kMaxClasses = 64;                    // ways to end
  static constexpr std::size_t kMaxLine = std::size_t{1} << 10;     // bytes of a cause, and of each name

  std::string version;  // of nacre-shell
  value::JobId id;
  std::string name;
  std::uint32_t user = 0;
  ProcessPlace place;           // of the leader
  std::int64_t pid = 0;         // the leader's
  std::uint64_t pid_start = 0;  // when it was started: clock ticks since the boot, proc(5); 0: not known
  std::string address;          // unix:PATH of its control socket
  Manager manager;
  std::uint64_t shells = 0;
  std::uint64_t gone = 0;      // of them: lost, or taken out
  std::uint64_t spares = 0;    // of those that are left
  std::uint64_t restarts = 0;  // how often tasks were started again
  bool takes_over = false;     // another shell leads the job once this leader is lost
  std::uint64_t tasks = 0;
  std::vector<std::string> command;
  std::string cwd;
  double started = 0;  // seconds since the Epoch
  // What readers have to know about the job, a line each: that its machine is made up, that it was a rehearsal.
  std::vector<std::string> notes;
  std::optional<EntryEnd> end;  // none: the job runs

  [[nodiscard]] bool ended() const { return end.has_value(); }
  // Whether its leader has gone, and another one may take over here.
  [[nodiscard]] bool may_go_on() const { return takes_over && end && end->vanished; }
  // One line, with its newline, of at most kMaxText bytes: members that are too long are shortened.
  [[nodiscard]] std::string text() const;
  // EINVAL: the message names what is wrong, and where. Members that are not known are ignored.
  static Result<JobEntry> parse(std::string_view text);

  bool operator==(const JobEntry&) const = default;
};

// Makes EntryEnd::exits of {record: ranks}, the tasks of exits::Outcomes by how they have ended.
[[nodiscard]] Json exits_of(const Json& ranks_by_record);

// Returns `report` itself if it is short enough; otherwise without its longest parts, and with "shortened": true.
[[nodiscard]] Json fitting_report(Json report);

// The exit code that an ended job would have by another policy.

// 0..255. EINVAL: the entry does not tell; the message says why.
Result<int> code_by(exits::Policy::Kind kind, const EntryEnd& end);

}  // namespace nacre::record
