// SPDX-License-Identifier: Apache-2.0
//
// What one task, and one node, has used: a row of the job's usage. Time is in seconds, memory and i/o in bytes.
//
// The kernel counts for a task what it has waited for, too: times and faults are added, of memory the largest
// process counts. What a task has left behind, or never waited for, is not counted.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "usage/gpu.hpp"
#include "value/wait_status.hpp"

namespace nacre::usage {

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
  std::optional<double> started;  // since the Epoch; none: it could not be started, all below but `status` is 0
  double wall = 0;
  value::WaitStatus status;
  double user = 0, system = 0;
  std::uint64_t max_rss = 0;
  bool is_bound = false;  // max_rss is not more than the shell's, whose copy a task is at first: at most so much
  std::uint64_t minor_faults = 0, major_faults = 0;
  std::uint64_t blocks_in = 0, blocks_out = 0;   // of 512 bytes, as the kernel counts them
  std::uint64_t voluntary = 0, involuntary = 0;  // context switches
  std::optional<TaskIo> io;                      // none: it could not be read
  // Of its own cgroup (cgroup=task) are: user, system; if its memory was counted max_rss, of all of its processes
  // together, and how many of these were killed as memory ran out.
  bool has_cgroup = false;
  std::optional<std::uint64_t> oom_kills;
  std::optional<std::uint64_t> out, err;  // bytes on its standard output and error; none: not through the shell
  std::string command;                    // "": the job's, or it was not asked for
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
  std::uint64_t tasks = 0;                   // that have ended
  double cpu = 0;                            // of these tasks
  std::optional<std::uint64_t> memory_peak;  // of all processes of the job there; none: no cgroup of its own
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

}  // namespace nacre::usage
