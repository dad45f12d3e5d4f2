// SPDX-License-Identifier: Apache-2.0
//
// An ordered list of host names ("node[0-3,07],login"), repeats allowed. Text form: Flux RFC 29.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::value {

class Hostlist {
 public:
  static constexpr std::uint64_t kMaxHosts = std::uint64_t{1} << 20;  // names in one list, after expansion
  static constexpr std::size_t kMaxName = 255;                        // bytes of one name
  static constexpr std::size_t kMaxText = std::size_t{64} << 20;      // bytes of text

  Hostlist() = default;
  // Parses RFC 29 text (an empty text is an empty list). Errors name the part that is wrong; a list that would have
  // more than kMaxHosts names is refused before it is expanded.
  static Result<Hostlist> parse(std::string_view text);

  [[nodiscard]] std::string str() const;  // compressed, order kept

  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::optional<std::string> nth(std::uint64_t n) const;
  [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name) const;  // the first position of this name
  [[nodiscard]] std::vector<std::string> names() const;

  void append(std::string_view name);  // one plain name; brackets are not expanded
  void append(const Hostlist& other);
  void sort();  // by prefix, then number, then width
  void uniq();  // sorts, then drops repeats
  // Removes the first occurrence of each name of `other`; returns how many were removed.
  std::uint64_t remove(const Hostlist& other);

  bool operator==(const Hostlist& other) const;  // the same names in the same order

 private:
  // Names that differ only in a number of one width: PREFIX + zero-padded first..last.
  struct Run {
    std::string prefix;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    int width = 0;         // digits to pad to; 0: not padded
    bool numbered = false;  // false: the prefix is the whole name
  };

  std::vector<Run> runs_;
  std::uint64_t size_ = 0;
};

}  // namespace nacre::value
