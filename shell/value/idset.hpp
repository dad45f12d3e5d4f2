// SPDX-License-Identifier: Apache-2.0
//
// A set of non-negative integers ("0-3,7"). Text form: Flux RFC 22, plain or in brackets.
//
// It is stored as sorted, disjoint, non-adjacent ranges, so a set costs memory and time by its ranges, not by its
// ids. Set algebra, parse, str, size and nth are linear in the ranges; contains, next and prev are logarithmic.
#pragma once

#include "base/result.hpp"

namespace nacre::value {

class Idset {
 public:
  using Id = std::uint32_t;
  struct Range {
    Id first;
    Id last;  // inclusive
    bool operator==(const Range&) const = default;
  };

  static constexpr Id kMaxId = UINT32_MAX - 1;  // RFC 22 leaves the largest value to the implementation
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  // bytes

  Idset() = default;
  // The three functions that put ids into a set need ids of at most kMaxId; callers have to ensure that (asserted).
  // first..last, both included; empty if first > last.
  static Idset range(Id first, Id last);
  // Made of ids in any order, with repeats.
  static Idset of(std::span<const Id> ids);

  // Parses RFC 22 text: ids ascend, each once, without leading zeros or blanks. "" and "[]" are the empty set; a
  // range of one id, "3-3", is accepted. Errors name the wrong part.
  static Result<Idset> parse(std::string_view text);

  // "0-3,7"; "" if empty. With `brackets`, in brackets if there is more than one id.
  [[nodiscard]] std::string str(bool brackets = false) const;
  // For messages: of more than 16 ranges only these, and how many ids there are: "0,2,4, ... (500 in all)".
  [[nodiscard]] std::string short_str() const;

  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] std::uint64_t size() const;  // how many ids
  [[nodiscard]] bool contains(Id id) const;
  [[nodiscard]] std::optional<Id> first() const;
  [[nodiscard]] std::optional<Id> last() const;
  [[nodiscard]] std::optional<Id> next(Id id) const;           // the least id greater than `id`
  [[nodiscard]] std::optional<Id> prev(Id id) const;           // the greatest id less than `id`
  [[nodiscard]] std::optional<Id> nth(std::uint64_t n) const;  // the n-th id in order, from 0
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }
  [[nodiscard]] std::vector<Id> ids() const;  // all of them: memory by the number of ids

  // These move the ranges after the new one, so they are fast at the end; for many ids in any order use of() and
  // the operators.
  void insert(Id id) { insert(id, id); }
  void insert(Id first, Id last);
  void insert(const Idset& other);  // fast if `other` is small and this set is large
  void remove(Id id) { remove(id, id); }
  void remove(Id first, Id last);
  // Takes off the first ids and returns them: as many ranges as fit into `text` bytes as text, but at least one.
  Idset take_first(std::size_t text);

  [[nodiscard]] Idset operator|(const Idset& other) const;
  [[nodiscard]] Idset operator&(const Idset& other) const;
  [[nodiscard]] Idset operator-(const Idset& other) const;
  bool operator==(const Idset&) const = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace nacre::value
