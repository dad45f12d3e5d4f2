// SPDX-License-Identifier: Apache-2.0
//
// An ordered list of host names ("node[0-3,07],login"), which may repeat. Text form: Flux RFC 29, which has one
// pair of brackets in an expression. An empty expression, as in "a,,b", has no names.
//
// It is stored as runs of names that differ in a number counting up, so a regular list costs memory by its runs,
// not by its names. The number of a name is the one at its end, or else the last one before the first dot.
#pragma once

#include "base/result.hpp"

namespace nacre::value {

class Hostlist {
 public:
  static constexpr std::uint64_t kMaxHosts = std::uint64_t{1} << 20;  // names of one text, expanded
  static constexpr std::size_t kMaxName = 255;                        // bytes of one name
  static constexpr std::size_t kMaxDigits = 18;                       // of a number in brackets
  static constexpr std::size_t kMaxText = std::size_t{64} << 20;      // bytes of text

  Hostlist() = default;
  // Parses RFC 29 text (an empty text is an empty list). Errors name the wrong part; a list that would have more
  // than kMaxHosts names is refused before it is expanded. The leading zeros of the first number in brackets count
  // for all of them; if it has none, each number has its own.
  static Result<Hostlist> parse(std::string_view text);

  // Compressed, in the same order. Parses back to an equal list.
  [[nodiscard]] std::string str() const;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::optional<std::string> nth(std::uint64_t n) const;  // logarithmic in the runs
  // The first position of this name. Linear in the runs.
  [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  // `length` names from the n-th on; fewer if the list ends before.
  [[nodiscard]] Hostlist part(std::uint64_t n, std::uint64_t length) const;

  void append(std::string_view name);  // a name that RFC 29 allows; brackets are not expanded
  void append(const Hostlist& other);
  void sort();  // by prefix, then number, then width; for each number in a name
  void uniq();  // sorts, then drops repeats
  // Removes the first occurrence of each name of `other`; returns how many were removed.
  std::uint64_t remove(const Hostlist& other);

  bool operator==(const Hostlist& other) const;  // the same names in the same order

 private:
  // Prefix, a number from first to last, suffix. A name without a number is a run of one, and all of it is the
  // prefix.
  struct Run {
    std::string prefix;
    std::string suffix;
    std::uint64_t first = 0;
    std::uint64_t last = 0;  // inclusive
    int width = 0;           // digits to pad to; 0: no padding
    bool numbered = false;
    std::uint64_t position = 0;  // of the first name in the list

    static Run of(std::string_view name);
    [[nodiscard]] std::uint64_t count() const { return last - first + 1; }
    [[nodiscard]] std::string name(std::uint64_t n) const;  // n < count()
    [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name) const;
    [[nodiscard]] Run slice(std::uint64_t from, std::uint64_t length) const;
    [[nodiscard]] bool alike(const Run& other) const;  // they differ only in first and last
    void write_numbers(std::string& out) const;        // "7", "08-11"
    bool operator==(const Run&) const = default;
  };

  static bool sort_runs(std::vector<Run>& runs);
  Result<void> parse_expression(std::string_view text);
  Result<void> parse_idlist(std::string_view prefix, std::string_view list, std::string_view suffix);
  void push(Run run);

  std::vector<Run> runs_;
  std::uint64_t size_ = 0;
};

}  // namespace nacre::value
