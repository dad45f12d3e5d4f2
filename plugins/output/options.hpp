// SPDX-License-Identifier: Apache-2.0
//
// The options `output` and `label-io`, see nacre-shell-options(7), read and checked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "io/assembler.hpp"
#include "io/fd_sink.hpp"
#include "io/format.hpp"
#include "job/options.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

enum class OutputType { term, file, kvs };

// What equal lines are named by that are printed once.
enum class Fold { off, ranks, hosts };

// Whether a task writes to a file of its own by itself.
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
  bool is_looked_at = false;  // no option of its own: the shell looks at what the tasks write
  Fold fold = Fold::off;
  bool events = false;                 // all that comes out at standard output is JSON, events among it
  std::optional<std::uint64_t> limit;  // bytes of each stream; does not apply to files
  io::Overflow overflow = io::Overflow::block;
  std::uint64_t spill_limit = io::FdSink::kSpillLimit;  // bytes
  std::optional<value::Idset> ranks;                    // none: all
  double drain_timeout = 10;                            // seconds

  [[nodiscard]] bool has_files() const;  // something goes to a file that the options name
  [[nodiscard]] bool prints(value::Idset::Id rank) const { return !ranks || ranks->contains(rank); }
  // Settings that are missing for stderr are taken from stdout. `usual`: where a stream goes for which nothing is
  // said.
  static Result<OutputOptions> read(const job::Options& options, OutputType usual = OutputType::term);
  // EINVAL: a stream goes to the job's record, and there is none.
  [[nodiscard]] Result<void> check_record(bool is_there) const;
};

}  // namespace nacre::plugins
