// SPDX-License-Identifier: Apache-2.0
//
// The list of jobs: reads the entries of all places, and finds the job that a user means.
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
  std::size_t place = 0;  // index of JobList::directories

  // R, U, CD (ended with 0), F (failed), V (vanished).
  [[nodiscard]] std::string_view status() const;
};

// What is used to find out whether a leader still runs; tests use others than own_witness().
struct Witness {
  ProcessPlace here;
  // When a process was started, as places.hpp has it; none: there is no such process, or it has ended.
  std::function<std::optional<std::uint64_t>(std::int64_t pid)> start_of;
  double since_boot = 0;  // seconds, proc(5): as processes' starts
};
[[nodiscard]] Witness own_witness();

// How long a job has run, in seconds, at `now` (since the Epoch) if it still runs: by a clock that nobody sets, if
// the job is of this boot of this host, or its leader has told so at its end.
[[nodiscard]] double time_of(const JobEntry& entry, const Witness& witness, double now);

// Whether the leader of a job without an end runs, is gone (the job has vanished), or cannot be seen from here.
enum class Leader : std::uint8_t { there, gone, out_of_sight };
[[nodiscard]] Leader leader_of(const JobEntry& entry, const Witness& witness);

// The entry of a job whose end nobody has recorded: with an end now, `vanished`, and code 137, as if its leader was
// killed.
[[nodiscard]] JobEntry vanished(JobEntry entry, double now);

struct JobList {
  static constexpr std::size_t kKept = 200;               // jobs that have succeeded, and as many that have failed
  static constexpr double kKeptFor = 7.0 * 24 * 60 * 60;  // seconds

  std::vector<EntryDirectory> directories;
  std::vector<Listed> jobs;           // the first started first
  std::vector<std::string> warnings;  // about places and entries that could not be read, one line each

  // Reads all entries. Where the directory can be written to, the end of a job whose leader is gone is recorded,
  // and entries of jobs that ended too long ago are removed. If two places have one id the entry that knows how the
  // job has ended counts.
  static JobList read(const std::vector<std::string>& places, const Witness& witness, double now);

  // `job`: an id in any form of RFC 19, a unique beginning of an id, a name that only one running job has, or if
  // none does, that of the job that has ended last of those with it; `last`, slurm:JOB or slurm:JOB.STEP, HOST/ID.
  // EINVAL: several jobs match, and the message lists them. ENOENT: none does.
  [[nodiscard]] Result<const Listed*> find(std::string_view job) const;
  // The only job that runs; if none does, the only one that may run. ENOENT: there is none. EINVAL: there are
  // several.
  [[nodiscard]] Result<const Listed*> only_one() const;

 private:
  void read_place(std::size_t place, const Witness& witness, double now);
  void prune(double now);

  std::map<value::JobId, std::size_t> by_id_;  // indices of jobs, while entries are read
};

// Removes the entries that JobList::read() would: too old, or beyond kKept. For processes that write an entry now
// and then.
void prune(const EntryDirectory& directory, double now);

}  // namespace nacre::record
