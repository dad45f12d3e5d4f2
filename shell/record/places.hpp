// SPDX-License-Identifier: Apache-2.0
//
// Where entries are: ID.json in the first of these directories that can be written to. Readers search all of them.
//
//   $XDG_STATE_HOME/nacre/jobs, or if that is not set ~/.local/state/nacre/jobs
//   $XDG_RUNTIME_DIR/nacre/jobs
//   /tmp/nacre-UID/jobs; below /var/tmp or /dev/shm where /tmp cannot be written
//
// If $NACRE_JOBS_DIR is set it is the only one. Missing parts of a path are made, except a home and
// $XDG_RUNTIME_DIR. Each belongs to this user, and nobody else may enter it (0700). A directory that another user
// has made there is not used.
#pragma once

#include "base/unique_fd.hpp"
#include "record/entry.hpp"

namespace nacre::record {

using Variables = std::function<std::optional<std::string>(const char* name)>;

// Absolute paths, in the order above, without those whose variable is not set or is not an absolute path, and
// without those in a home or $XDG_RUNTIME_DIR that does not exist.
[[nodiscard]] std::vector<std::string> places(const Variables& variables);

// The place of this process.
[[nodiscard]] ProcessPlace own_place();
// When a process was started, in clock ticks since the boot; none: there is no such process, or it has ended.
[[nodiscard]] std::optional<std::uint64_t> start_of(std::int64_t pid);

class EntryDirectory {
 public:
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 16;    // how many names are read
  static constexpr std::size_t kMaxDetails = std::size_t{512} << 10;  // bytes of a job's details

  // EPERM: the directory is another user's, or others may enter it; the message has the remedy. ENOENT: it does not
  // exist.
  static Result<EntryDirectory> open(std::string path);
  // The same, but makes the missing directories of the path, with mode 0700.
  static Result<EntryDirectory> make(std::string path);
  // The first of `candidates` that can be made and written to. `skipped` gets a line for each candidate before it,
  // with the reason.
  static Result<EntryDirectory> choose(const std::vector<std::string>& candidates,
                                       std::vector<std::string>* skipped);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(const value::JobId& id) const;

  // Replaces the entry of this id atomically: a reader gets the old one or the new one.
  Result<void> write(const JobEntry& entry) const;
  // Also removes the files of its output and its details.
  Result<void> remove(const value::JobId& id) const;
  // ID.out, beside the entry: what a detached job writes to its terminal. Makes it, or adds to it.
  Result<UniqueFd> open_output(const value::JobId& id) const;
  // ENOENT: there is no such file.
  Result<UniqueFd> read_output(const value::JobId& id) const;
  Result<void> remove_output(const value::JobId& id) const;
  // ID.details, beside the entry: what else a bundle needs to know of the job (nacre-report(1)), at most
  // kMaxDetails bytes of JSON. It replaces an existing file atomically.
  Result<void> write_details(const value::JobId& id, std::string_view text) const;
  // ENOENT: there are none.
  Result<std::string> read_details(const value::JobId& id) const;
  // The file of record/bad_hosts.hpp. ENOENT: there is none.
  Result<std::string> read_bad_hosts() const;
  Result<void> add_bad_hosts(std::string_view lines) const;  // adds them at its end
  Result<void> replace_bad_hosts(std::string_view text) const;
  // Removes outputs and details that have no entry, and were written to more than `age` seconds ago.
  void remove_outputs(double age) const;
  // Removes what process `pid` of this host has left if it was killed while it wrote the entry with this file name.
  void remove_temporary(const std::string& name, std::int64_t pid) const;
  // Removes what any process has left in the same way more than `age` seconds ago.
  void remove_temporaries(double age) const;
  // ENOENT: there is no such entry.
  Result<JobEntry> read(const value::JobId& id) const;
  // Reads the entry with this file name: ID.json.
  Result<JobEntry> read_named(const std::string& name) const;
  // The leader of a job that takes over is lost now. The entry stays as it is: it may be the next leader's already.
  void note_lost(const value::JobId& id) const;
  // When that was noted, or the entry was written.
  [[nodiscard]] double noted_at(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  Result<void> replace(const std::string& name, std::string_view text) const;
  Result<std::string> read_text(const std::string& name, std::size_t most) const;
  [[nodiscard]] std::vector<std::string> names_that(const std::function<bool(std::string_view)>& is) const;
  EntryDirectory(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

// The list of jobs: reads the entries of all places, and finds the job that a user means.
enum class JobState : std::uint8_t {
  running,
  ended,
  unknown,  // its leader is on another host, or in another PID namespace: it was running
  unled,    // its leader has vanished, and the others may choose another one still
};

struct Listed {
  JobEntry entry;
  JobState state = JobState::running;
  std::size_t place = 0;  // index of JobList::directories

  // R, U, L (unled), CD (ended with 0), F (failed), V (vanished).
  [[nodiscard]] std::string_view status() const;
};

// What this host knows of processes, to find out whether a leader still runs. Tests use others than own_witness().
struct Witness {
  ProcessPlace here;
  // When a process was started, as places.hpp has it; none: there is no such process, or it has ended.
  std::function<std::optional<std::uint64_t>(std::int64_t pid)> start_of;
  double since_boot = 0;  // seconds, proc(5), on the same clock as processes' starts
};
[[nodiscard]] Witness own_witness();

// How long a job has run, in seconds, at `now` (since the Epoch) if it still runs: measured by a clock that nobody
// sets, if the job ran in this boot of this host, or its leader has recorded that at its end.
[[nodiscard]] double time_of(const JobEntry& entry, const Witness& witness, double now);

// Whether the leader of a job without an end runs, is gone (the job has vanished), or cannot be seen from here.
enum class Leader : std::uint8_t { there, gone, out_of_sight };
[[nodiscard]] Leader leader_of(const JobEntry& entry, const Witness& witness);

// The entry of a job whose end nobody has recorded, with an end: `vanished`, and code 137, as if its leader was
// killed.
[[nodiscard]] JobEntry vanished(JobEntry entry, double now);

struct JobList {
  static constexpr std::size_t kKept = 200;               // jobs that have succeeded, and as many that have failed
  static constexpr double kForLeader = 60;                // seconds in which others may choose another one
  static constexpr double kKeptFor = 7.0 * 24 * 60 * 60;  // seconds

  std::vector<EntryDirectory> directories;
  std::vector<Listed> jobs;           // the first started first
  std::vector<std::string> warnings;  // about places and entries that could not be read, one line each

  // Reads all entries. Where the directory can be written to, the end of a job whose leader is gone is recorded,
  // and entries of jobs that ended too long ago are removed. If two places have an entry of the same id, the one
  // that says how the job has ended counts.
  static JobList read(const std::vector<std::string>& places, const Witness& witness, double now);

  // `job`: an id in any form of RFC 19, a unique beginning of an id, a name that only one running job has, or if
  // none has it, the job of that name that has ended last; `last`, slurm:JOB or slurm:JOB.STEP, HOST/ID. EINVAL:
  // several jobs match, and the message lists them. ENOENT: none does.
  [[nodiscard]] Result<const Listed*> find(std::string_view job) const;
  // The only job that runs, if perhaps without a leader; if none does, the only one that may run. ENOENT: there is
  // none. EINVAL: there are several.
  [[nodiscard]] Result<const Listed*> only_one() const;

 private:
  void read_place(std::size_t place, const Witness& witness, double now);
  void prune(double now);

  std::map<value::JobId, std::size_t> by_id_;  // indices of jobs, while entries are read
};

// Removes the entries that JobList::read() would remove: too old, or beyond kKept. For processes that write an
// entry now and then.
void prune(const EntryDirectory& directory, double now);

}  // namespace nacre::record
