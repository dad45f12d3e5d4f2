// SPDX-License-Identifier: Apache-2.0
//
// Writes equal lines of many tasks as one: "[0-511]: text". Each task's lines stay in their order. A line waits for
// the tasks that have not written it, until all have, or for kDelay, or until more than kWindow waits.
//
// It is pure: the owner looks at the clock.
#pragma once

#include "io/batch.hpp"

namespace nacre::io {

class Folder {
 public:
  static constexpr double kDelay = 0.1;                         // seconds that a line waits
  static constexpr std::size_t kWindow = std::size_t{1} << 20;  // bytes of lines that wait, ...
  static constexpr std::size_t kLineCost = 128;                 // ... plus this for each line

  // Gets a line with its newline. Its label names those that wrote it: "[0-3,7]: ", or "3: ".
  using Emit = std::function<void(const Batch&)>;
  // Names those that wrote a line: ranks, each once, in the order in which they wrote it.
  using Names = std::function<std::string(const std::vector<std::uint32_t>&)>;

  // `sources`: how many tasks' lines it waits for on each stream. `names`: by default an idset, as "[0-3,7]".
  explicit Folder(std::size_t sources, Names names = {}) : live_{sources, sources}, names_(std::move(names)) {}

  // Takes whole lines. A line without a newline gets one.
  void add(const Batch& batch, const Emit& emit);
  // A source has ended: lines do not wait for it any more.
  void end(const Source& source, const Emit& emit);
  // Emits the lines that have waited until `time`.
  void expire(double time, const Emit& emit);
  // When to call expire(); none: no line waits.
  [[nodiscard]] std::optional<double> deadline() const;

 private:
  struct Line {
    Stream stream;
    double time;
    std::string text;
    std::vector<std::uint32_t> ranks;
  };
  struct Key {
    Stream stream;
    std::uint32_t rank;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>()(std::uint64_t{key.rank} << 1 | static_cast<std::uint64_t>(key.stream));
    }
  };

  void add_line(Stream stream, std::uint32_t rank, double time, std::string_view line, const Emit& emit);
  void emit_front(const Emit& emit);
  void emit_complete(const Emit& emit);

  std::array<std::size_t, kStreams.size()> live_;     // sources that have not ended, ...
  std::array<std::size_t, kStreams.size()> ahead_{};  // ... and how many of them have passed the front line
  Names names_;
  std::deque<Line> lines_;  // number first_, first_ + 1, ...
  std::uint64_t first_ = 1;
  std::size_t bytes_ = 0;
  std::unordered_map<Key, std::uint64_t, KeyHash> last_;  // the number of each live source's last line
  std::set<std::tuple<std::string_view, Stream, std::uint64_t>>
      by_text_;  // numbers of lines_; views of their texts
};

}  // namespace nacre::io
