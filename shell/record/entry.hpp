// SPDX-License-Identifier: Apache-2.0
//
// What is written down of a job, so that it can be found while it runs and its end be known afterwards: one JSON object a file,
// nacre-jobs(7) has its members. It holds no secret: not the job's, and nothing of its environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "value/jobid.hpp"

namespace nacre::record {

// Where a process runs. Only who is at the same place can tell whether it is still there.
struct ProcessPlace {
  std::string host;
  std::string machine;     // digits of the host that no other host has
  std::string boot;        // digits of this boot of it
  std::uint64_t pids = 0;  // the PID namespace, as the kernel numbers it
  bool operator==(const ProcessPlace&) const = default;
};

// What has started the shells.
struct Manager {
  std::string kind = "none";  // slurm, flux; none: nacre itself, or another
  std::string job;            // its id there; "": it has none
  std::string step;
  bool operator==(const Manager&) const = default;
};

// How a job has ended.
struct EntryEnd {
  double time = 0;             // seconds since the Epoch
  int code = 0;                // 0..255
  bool vanished = false;       // the leader was killed, or its host was: the code is not known
  std::string cause;           // one line; "": it has ended by itself
  Json exits = Json::array();  // [{"record": text, "count": tasks, "ranks": idset}, ...]; a long idset is left out
  Json report;                 // as -o report=FILE has it, at most kMaxReport bytes of text; null: there is none
  bool operator==(const EntryEnd&) const = default;
};

struct JobEntry {
  static constexpr std::size_t kMaxText = std::size_t{64} << 10;    // bytes of an entry
  static constexpr std::size_t kMaxReport = std::size_t{32} << 10;  // bytes of a report
  static constexpr std::size_t kMaxCommand = std::size_t{4} << 10;  // bytes of the command's words
  static constexpr std::size_t kMaxRanks = std::size_t{8} << 10;    // bytes of all idsets
  static constexpr std::size_t kMaxClasses = 64;                    // ways to end
  static constexpr std::size_t kMaxLine = std::size_t{1} << 10;     // bytes of a cause, and of each name

  std::string version;  // of the program
  value::JobId id;
  std::string name;
  std::uint32_t user = 0;
  ProcessPlace place;           // of the leader
  std::int64_t pid = 0;         // the leader's
  std::uint64_t pid_start = 0;  // when it was started: clock ticks since the boot, proc(5)
  std::string address;          // unix:PATH of its control socket
  Manager manager;
  std::uint64_t shells = 0;
  std::uint64_t tasks = 0;
  std::vector<std::string> command;
  std::string cwd;
  double started = 0;           // seconds since the Epoch
  std::optional<EntryEnd> end;  // none: it runs

  [[nodiscard]] bool ended() const { return end.has_value(); }
  // One line, with its newline, of at most kMaxText bytes: what is too long is shortened.
  [[nodiscard]] std::string text() const;
  // EINVAL: what is wrong, and where. Members that are not known are passed over.
  static Result<JobEntry> parse(std::string_view text);

  bool operator==(const JobEntry&) const = default;
};

// The tasks of Outcomes by how they have ended, {record: ranks}, as End::exits has them.
[[nodiscard]] Json exits_of(const Json& ranks_by_record);

// `report` itself if it is not too long, else without its longest parts, with "shortened": true.
[[nodiscard]] Json fitting_report(Json report);

}  // namespace nacre::record
