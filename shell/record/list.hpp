// SPDX-License-Identifier: Apache-2.0
//
// The list of jobs: the entries of all places, and which of them is meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/places.hpp"

namespace nacre::record {

enum class JobState : std::uint8_t {
  running,
  ended,
  unknown,  // its leader is on another host, or in another PID namespace: it was running
};

struct Listed {
  JobEntry entry;
  JobState state = JobState::running;
  std::size_t place = 0;  // of JobList::directories

  // R, U, CD (ended with 0), F (failed), V (vanished).
  [[nodiscard]] std::string_view status() const;
};

// What says whether a leader is still there; tests have others.
struct Witness {
  ProcessPlace here;
  // None: no such process, or it has ended.
  std::function<std::optional<std::uint64_t>(std::int64_t pid)> start_of;
};
[[nodiscard]] Witness own_witness();

// Whether the leader of a job that has not ended is gone (vanished), there, or out of sight.
enum class Leader : std::uint8_t { there, gone, out_of_sight };
[[nodiscard]] Leader leader_of(const JobEntry& entry, const Witness& witness);

// How it has ended, if nobody knows: now, with vanished set. 137: as if its leader was killed.
[[nodiscard]] JobEntry vanished(JobEntry entry, double now);

struct JobList {
  static constexpr std::size_t kKept = 200;               // ended jobs, the newest
  static constexpr double kKeptFor = 7.0 * 24 * 60 * 60;  // seconds

  std::vector<EntryDirectory> directories;
  std::vector<Listed> jobs;           // the first started first
  std::vector<std::string> warnings;  // about places and entries that could not be read, one line each

  // Reads all entries. One whose leader is gone is written down as ended, one that ended too long ago is removed, as far as
  // they can be written. Of one id in two places, the one that tells how it has ended counts.
  static JobList read(const std::vector<std::string>& places, const Witness& witness, double now);

  // JOB: an id in any form of RFC 19, the beginning of one that is unique, the name that one running job has, `last`,
  // slurm:JOB or slurm:JOB.STEP, HOST/ID. EINVAL, ENOENT: it names several, which are listed, or none.
  [[nodiscard]] Result<const Listed*> find(std::string_view job) const;
  // The only one that runs, or may. ENOENT: there is none, or several.
  [[nodiscard]] Result<const Listed*> only_one() const;

 private:
  void read_place(std::size_t place, const Witness& witness, double now);
  void prune(double now);

  std::map<value::JobId, std::size_t> by_id_;  // of jobs, while they are read
};

// Removes from a directory what ended too long ago or is too much; for who writes an entry now and then.
void prune(const EntryDirectory& directory, double now);

}  // namespace nacre::record
