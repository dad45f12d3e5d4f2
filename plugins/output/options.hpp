// SPDX-License-Identifier: Apache-2.0
//
// The options `output` and `label-io`, see nacre-shell-options(7), read and checked; the files that they name, and
// the pipes between the shell and its tasks.
#pragma once

#include <fcntl.h>

#include "io/batch.hpp"
#include "io/format.hpp"
#include "io/sink.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

enum class OutputType { term, file, kvs };

// By which name folded lines, which are equal and printed once, are labelled.
enum class Fold { off, ranks, hosts };

// Whether a task writes to a file of its own directly.
enum class Direct { if_possible, off, on };

struct StreamOptions {
  std::vector<OutputType> types = {OutputType::term};  // several: output goes to all of them
  std::string path;                                    // a template, for the type `file`
  std::optional<std::string> label;                    // a template; none: lines are not labelled
  io::Timestamps timestamps = io::Timestamps::none;
  bool json = false;
  io::Buffering buffering = io::Buffering::line;

  [[nodiscard]] bool has(OutputType type) const;
  // prefixed(): something is put before lines; plain(): the bytes are not changed.
  [[nodiscard]] bool prefixed() const { return label || timestamps != io::Timestamps::none; }
  [[nodiscard]] bool plain() const { return !prefixed() && !json; }
};

struct OutputOptions {
  std::array<StreamOptions, io::kStreams.size()> streams;
  bool append = false;
  bool makes_directories = false;  // mkdir
  Direct direct = Direct::if_possible;
  bool is_looked_at = false;  // not an option: the shell looks at what the tasks write
  Fold fold = Fold::off;
  bool events = false;                 // all that comes out at standard output is JSON, and events are among it
  std::optional<std::uint64_t> limit;  // bytes of each stream; does not apply to files
  io::Overflow overflow = io::Overflow::block;
  std::uint64_t spill_limit = io::FdSink::kSpillLimit;  // bytes
  std::optional<value::Idset> ranks;                    // none: all
  double drain_timeout = 10;                            // seconds

  [[nodiscard]] bool has_files() const;  // something goes to a file that the options name
  [[nodiscard]] bool prints(value::Idset::Id rank) const { return !ranks || ranks->contains(rank); }
  // Settings that are missing for stderr are taken from stdout. `usual`: where a stream goes if no option says so.
  static Result<OutputOptions> read(const job::Options& options, OutputType usual = OutputType::term);
  // EINVAL: a stream goes to the job's record, and there is none.
  [[nodiscard]] Result<void> check_record(bool is_there) const;
};

// The files that output goes to, by the templates described in nacre-shell-options(7).

// Expands a template; a relative name is below the working directory. Without `task` the tags of tasks are left as
// they are; unknown tags always are.
Result<std::string> output_path(plugin::Host& host, const std::string& text, const task::Task* task);

// Opens or makes a file to append to; with `empties` it is emptied first. Never waits, so a FIFO without a reader
// is ENXIO. None if it failed: see errno.
[[nodiscard]] UniqueFd open_to_append(const std::string& path, bool empties);

class OutputFiles {
 public:
  OutputFiles(bool append, bool makes_directories) : append_(append), makes_directories_(makes_directories) {}

  // Opens a file for appending; the first time it is emptied, unless its content is kept. Directories on the way to
  // it are made if the option mkdir asks for that.
  Result<UniqueFd> open(const std::string& path);
  // Another shell has emptied this file.
  void keep(const std::string& path) { ++opened_[path]; }

 private:
  bool append_, makes_directories_;
  std::map<std::string, int> opened_;  // how many times each was opened
};

// Makes reads and writes of the descriptor wait again, for a task that gets it. An error begins with `what`.
Result<void> make_blocking(int fd, const std::string& what);

inline constexpr std::size_t kUsualPipe = std::size_t{64} << 10;   // bytes that a pipe holds by default
inline constexpr std::size_t kReadSize = std::size_t{256} << 10;   // bytes that are read from one at once
inline constexpr std::size_t kReadToSend = std::size_t{60} << 10;  // as kReadSize, if they go to the leader's shell

// Makes a pipe, one of `pipes` of its kind, hold more, so that its writer does not wait so soon. The system limits
// all pipes of a user together (pipe(7)), so the more there are the less each gets; if the system refuses the pipe
// stays as it is. Returns how many bytes it holds then.
inline std::size_t widen_pipe(int fd, std::size_t pipes) {
  constexpr std::size_t kAll = std::size_t{16} << 20;     // bytes
  constexpr std::size_t kLargest = std::size_t{1} << 20;  // bytes
  std::size_t size = std::min(kLargest, kAll / std::max<std::size_t>(pipes, 1));
  const int got = size > kUsualPipe ? ::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(size)) : -1;
  return got < 0 ? kUsualPipe : static_cast<std::size_t>(got);
}

}  // namespace nacre::plugins
