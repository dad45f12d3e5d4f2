// SPDX-License-Identifier: Apache-2.0
//
// What `nacre exec` prints of what its commands write: as it comes, in lines with the name of who wrote it, folded
// while it comes, folded at the end, or as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/assembler.hpp"
#include "io/folder.hpp"
#include "value/idset.hpp"

namespace nacre::front {

// Where a command runs: a shell, or a task that it runs beside.
struct ExecTarget {
  std::uint32_t shell = 0;
  std::string host;
  std::optional<std::uint32_t> rank;
};

class ExecOutput {
 public:
  enum class Mode { raw, lines, live, at_end, json };
  // Folded at the end: bytes that are kept. Beyond, what is there is printed, and the rest is folded by itself.
  static constexpr std::size_t kMostKept = std::size_t{64} << 20;

  ExecOutput(Mode mode, std::vector<ExecTarget> targets);
  ExecOutput(const ExecOutput&) = delete;
  ExecOutput& operator=(const ExecOutput&) = delete;

  // `target`: index of the targets. `time`: seconds since the Epoch.
  void add(std::size_t target, io::Stream stream, std::string_view bytes, double time);
  void end(std::size_t target, double time);  // it writes no more
  void expire(double time);
  [[nodiscard]] std::optional<double> deadline() const;  // when to call expire()
  void finish();

  // Their names as one: hosts as "n[0-2]", ranks as "0-2".
  [[nodiscard]] std::string names(const value::Idset& targets) const;
  [[nodiscard]] const std::vector<ExecTarget>& targets() const { return targets_; }

 private:
  struct Stream {
    io::Source source;
    std::optional<io::Assembler> lines;
    std::string kept;
  };
  [[nodiscard]] Stream& stream_of(std::size_t target, io::Stream stream) {
    return streams_[target * io::kStreams.size() + static_cast<std::size_t>(stream)];
  }
  void print(io::Stream stream, std::string_view bytes);
  void print_lines(const io::Batch& batch);
  void print_json(const io::Batch& batch);
  void take(const io::Batch& batch);
  void print_kept();
  void print_kept(io::Stream stream);

  Mode mode_;
  std::vector<ExecTarget> targets_;
  std::vector<std::string> names_;  // of targets
  std::vector<Stream> streams_;     // of the first target, of the second, ...
  io::Folder folder_;
  std::size_t kept_ = 0;  // bytes
};

}  // namespace nacre::front
