// SPDX-License-Identifier: Apache-2.0
//
// The last output of a job, for viewers that come later, and for those that are slow: each reads at a position of
// its own. What is too old goes, by whole lines; a reader that has not had it yet learns how much it has missed.
// Without clock and descriptors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "io/batch.hpp"
#include "job/options.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class Scrollback {
 public:
  static constexpr std::size_t kUsual = std::size_t{1} << 20;   // bytes that are kept, by default
  static constexpr std::size_t kQueue = std::size_t{1} << 20;   // bytes by which a reader may be late, at least
  static constexpr std::size_t kPieceCost = 64;                 // bytes that each piece counts beyond its text
  static constexpr std::size_t kMost = std::size_t{256} << 20;  // that may be kept

  // A part of a line, or of several lines, of one stream of one task.
  struct Piece {
    std::uint32_t rank = 0;
    io::Stream stream = io::Stream::out;
    double time = 0;  // as in io::Batch; the same for `continues` and `open`
    std::string text;
    bool continues = false;
    bool open = false;
  };
  struct Wanted {
    std::optional<value::Idset> ranks = {};  // none: all
    std::array<bool, io::kStreams.size()> streams{true, true};
    std::optional<std::uint64_t> lines = {};  // the last ones of what is kept; none: all of it
    std::optional<double> since = {};         // a time; nothing older
  };
  struct Missed {  // a line counts where it ends; a reader may have had its beginning
    std::uint64_t lines = 0, bytes = 0;
    bool operator==(const Missed&) const = default;
  };

  // A position. It must not outlive the scrollback.
  class Reader {
   public:
    Reader(Scrollback& from, Wanted wanted);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // The next part, of at most `most` bytes; it ends with a line if one ends in it. None: there is no more yet. It
    // stays the next one until pass().
    std::optional<Piece> next(std::size_t most);
    void pass(const Piece& piece);
    // What went before it was read, since the last call.
    Missed missed();
    // Bytes of the job's output before the first one that this reader gets, of any task.
    [[nodiscard]] std::uint64_t before() const { return before_; }

   private:
    friend class Scrollback;
    [[nodiscard]] bool wants(const Piece& piece) const;
    void start();
    void start_at_lines(std::uint64_t lines);

    Scrollback& from_;
    Wanted wanted_;
    std::uint64_t number_ = 0;  // of the next piece, ...
    std::size_t offset_ = 0;    // ... from this byte on
    std::uint64_t before_ = 0;
    Missed missed_;
    bool has_missed_ = false;                               // once
    std::set<std::pair<std::uint32_t, io::Stream>> begun_;  // whose line this reader has the beginning of
  };

  // `keep`: bytes that are kept while nobody reads; 0: none.
  // The option attach.scrollback: bytes to keep.
  static Result<std::size_t> size_of(const job::Options& options);

  explicit Scrollback(std::size_t keep) : keep_(keep) {}

  void put(const io::Batch& batch);
  [[nodiscard]] std::size_t size() const { return size_; }  // bytes, with what each piece costs
  // The last lines as text, about so many bytes; `labels`: with the rank before each.
  [[nodiscard]] std::string text(std::size_t most, bool labels) const;

 private:
  [[nodiscard]] std::size_t most() const { return readers_.empty() ? keep_ : std::max(keep_, kQueue); }
  void shorten();
  void drop_first(std::size_t end);
  [[nodiscard]] const Piece& piece(std::uint64_t number) const { return pieces_[number - first_]; }
  [[nodiscard]] std::uint64_t last() const { return first_ + pieces_.size(); }  // behind the last one

  std::size_t keep_;
  std::deque<Piece> pieces_;  // numbers first_, first_ + 1, ...
  std::uint64_t first_ = 0;
  std::size_t first_offset_ = 0;  // bytes of the first one that are gone
  std::size_t size_ = 0;
  std::uint64_t gone_ = 0;  // bytes
  std::vector<Reader*> readers_;
};

}  // namespace nacre::plugins
