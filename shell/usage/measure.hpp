// SPDX-License-Identifier: Apache-2.0
//
// What is measured of each task, as a table; and over many tasks, the spread of one such measure.
#pragma once

#include <sys/resource.h>

#include "usage/gpu.hpp"
#include "value/wait_status.hpp"

namespace nacre::usage {

// What one task, or one node, has used: a row of the job's usage. Time is in seconds, memory and i/o in bytes.
//
// The kernel also counts for a task the children that it has waited for: times and faults are added, and for memory
// the largest process counts. Processes that a task has left behind, or never waited for, are not counted.

inline constexpr double kMicroseconds = 1e6;                        // of a second: times go to other shells as such
inline constexpr std::int64_t kMostOnWire = std::int64_t{1} << 60;  // of each number

// /proc/PID/io, proc(5): `chars` are passed to read(2) and write(2), `bytes` reach a storage device.
struct TaskIo {
  std::uint64_t read_chars = 0, written_chars = 0;
  std::uint64_t read_bytes = 0, written_bytes = 0;
  bool operator==(const TaskIo&) const = default;

  // The text of the file; none: a member is missing.
  static std::optional<TaskIo> parse(std::string_view text);
};

struct TaskRow {
  static constexpr std::size_t kMaxCommand = 512;  // bytes

  std::uint32_t rank = 0;
  std::optional<double> started;  // since the Epoch; none: it could not be started, and all below except `status`
                                  // is 0
  double wall = 0;
  value::WaitStatus status;
  double user = 0, system = 0;
  std::uint64_t max_rss = 0;
  bool is_bound = false;  // max_rss is not more than the shell's, of which a task is a copy at first: it is only an
                          // upper bound
  std::uint64_t minor_faults = 0, major_faults = 0;
  std::uint64_t blocks_in = 0, blocks_out = 0;   // of 512 bytes, as the kernel counts them
  std::uint64_t voluntary = 0, involuntary = 0;  // context switches
  std::optional<TaskIo> io;                      // none: it could not be read
  // Values of its own cgroup (cgroup=task): user and system; if its memory was counted max_rss, of all its
  // processes together, and how many of these were killed because memory ran out.
  bool has_cgroup = false;
  std::optional<std::uint64_t> oom_kills;
  std::optional<std::uint64_t> out, err;  // bytes of its stdout and stderr; none: not through the shell
  std::string command;                    // "": the job's, or not asked for
  std::optional<TaskGpu> gpu;             // of all looks; none: it was not asked for, or there was no look

  // Fills in what wait4(2) reports. `shell_peak`: the most memory that the shell had had when the task was started.
  void take(const rusage& usage, std::uint64_t shell_peak);

  [[nodiscard]] double cpu() const { return user + system; }

  // An array for other shells, of about 100 bytes as text, without the command's and the GPUs'.
  [[nodiscard]] Json wire() const;
  static Result<TaskRow> parse(const Json& wire);
  // An object for people's programs: nacre-report(1) lists the members.
  [[nodiscard]] Json json(std::string_view host) const;

  bool operator==(const TaskRow&) const = default;
};

struct NodeRow {
  std::uint32_t shell = 0;
  std::uint64_t tasks = 0;                   // tasks that have ended
  double cpu = 0;                            // of these tasks
  std::optional<std::uint64_t> memory_peak;  // of all processes of the job on the node; none: the job has no cgroup
                                             // of its own there
  std::optional<std::uint64_t> oom_kills;    // processes that the kernel has killed in the shell's cgroup
  std::vector<NodeGpu> gpus = {};            // if they were asked for

  [[nodiscard]] Json wire() const;
  static Result<NodeRow> parse(const Json& wire);
  [[nodiscard]] Json json(std::string_view host) const;

  bool operator==(const NodeRow&) const = default;
};

// A log of tasks in the columns of GNU parallel's --joblog, which programs read that are made for it.

// "Seq\tHost\t...\n".
[[nodiscard]] std::string joblog_head();
// One line, with its newline. Seq is the rank plus 1, as jobs of GNU parallel are counted from 1. `command`: for a
// shell; a newline or tab in it is shown as a blank.
[[nodiscard]] std::string joblog_line(const TaskRow& row, std::string_view host, std::string_view command);

// A line of such a log, as nacre or GNU parallel has written it.
struct JoblogEntry {
  std::uint32_t rank = 0;
  value::WaitStatus status;
  std::string command;

  // Whether a line for this command, for a shell, would have the same text.
  [[nodiscard]] bool is_of(std::string_view line) const;
};
// Errors name the line. An empty text is a log without lines.
Result<std::vector<JoblogEntry>> parse_joblog(std::string_view text);

// Joins the words to a command line for a shell.
[[nodiscard]] std::string command_line(const std::vector<std::string>& words);

enum class Unit : std::uint8_t { seconds, bytes, count, share };  // share: from 0 to 1

struct Measure {
  std::string_view name;   // in JSON
  std::string_view title;  // in a table for people; "": it is not shown there
  Unit unit;
  bool is_peak;      // of memory: the sum of peaks is not the peak of the sum, so none is made
  double least_gap;  // a smaller distance from the median makes no outlier; 0: nothing does
  std::optional<double> (*of)(const TaskRow& row);  // none: not known of this task

  // Whether the value in `row` is only an upper bound of the exact one.
  [[nodiscard]] bool is_bound(const TaskRow& row) const { return name == "maxrss" && row.is_bound; }
  [[nodiscard]] bool has_sum() const { return !is_peak && unit != Unit::share; }
};

inline constexpr std::size_t kMeasures = 18;
inline constexpr std::size_t kMeasuresWithoutGpus = 16;  // the first ones
[[nodiscard]] std::span<const Measure, kMeasures> measures();

// Statistics of one measure, without its values: any two can be merged, in any order.
class Spread {
 public:
  struct Extreme {
    double value = 0;
    std::uint32_t rank = 0;  // the lowest rank with this value
    bool is_bound = false;   // the exact value is at most this one: TaskRow::is_bound; of a minimum, of any row
    bool operator==(const Extreme&) const = default;
  };
  // Bucket 0 has zeros, bucket k values from 2^(k-1) to 2^k of the unit: microseconds, bytes, 1, thousandths.
  static constexpr std::size_t kBuckets = 62;

  void add(double value, const TaskRow& row, const Measure& measure);
  void merge(const Spread& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] const Extreme& min() const { return min_; }  // if count() is not 0; likewise max()
  [[nodiscard]] const Extreme& max() const { return max_; }
  [[nodiscard]] const std::array<std::uint64_t, kBuckets>& buckets() const { return buckets_; }
  // What at least half of the values do not exceed: the end of the bucket that has the median.
  [[nodiscard]] double median_at_most(const Measure& measure) const;
  // The least value of a bucket.
  [[nodiscard]] static double start_of(std::size_t bucket, const Measure& measure);

  static void describe(auto& io, auto& spread);  // as an array for other shells

  bool operator==(const Spread&) const = default;

 private:
  std::uint64_t count_ = 0;
  double sum_ = 0;
  Extreme min_, max_;
  std::array<std::uint64_t, kBuckets> buckets_{};
};

// For all measures, in the order of measures().
struct Totals {
  std::array<Spread, kMeasures> spreads;
  std::uint64_t ended = 0;      // tasks that ran
  std::uint64_t unstarted = 0;  // tasks that could not be started

  void add(const TaskRow& row);
  void merge(const Totals& other);
  [[nodiscard]] bool has_gpus() const;  // something is known of GPUs

  [[nodiscard]] Json wire() const;
  static Result<Totals> parse(const Json& wire);

  bool operator==(const Totals&) const = default;
};

// What a shell sends the leader of its tasks' usage: doc/protocol.md, "Usage of tasks".
struct UsageBatch {
  static constexpr std::size_t kMostRows = 64;

  std::vector<TaskRow> rows;
  std::optional<NodeRow> node;   // in the last one: nothing more comes from this shell
  std::optional<Totals> totals;  // in the last one, where the job has too many tasks for rows
  bool is_again = false;         // for a new leader: the former one may have had it

  [[nodiscard]] std::string text() const;
  static Result<UsageBatch> parse(std::string_view text);
  bool operator==(const UsageBatch&) const = default;
};

// Reads a summary, which may be another version's: members that are missing, or of another type, count as absent.
// Also formats numbers for people.

inline constexpr std::size_t kMostText = 200;  // bytes of a host's name, and of a set of ranks

[[nodiscard]] std::optional<double> number_in(const Json& object, std::string_view name);
// "" for none; at most kMostText bytes, without those that a terminal would take for commands.
[[nodiscard]] std::string text_in(const Json& object, std::string_view name);
// null for none
[[nodiscard]] const Json& member_in(const Json& object, std::string_view name);

// "1.234s", "12.3s", "4.5m", "1.2h"; "512", "12.3K"; "9999", "12.3k"; "12.3%".
[[nodiscard]] std::string value_text(double value, Unit unit);
// "3 on n1"; "3" without a host, "" without a rank.
[[nodiscard]] std::string who_in(const Json& extreme);

}  // namespace nacre::usage
