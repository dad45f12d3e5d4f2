// SPDX-License-Identifier: Apache-2.0
//
// How what `nacre doctor` finds is put into words. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/facts.hpp"
#include "doctor/findings.hpp"

namespace nacre::doctor {

// "reads a pipe that nobody writes to", "is in PMI barrier 2"; `several`: "read a pipe ...".
[[nodiscard]] std::string what(const Fact& fact, bool several = false);

// The hosts of these ranks, in their order; none: they are more than 4, or many ranks, or have no names.
[[nodiscard]] std::vector<std::string> hosts_of(const value::Idset& ranks, const Examination& examination);

// "rank 3 (n0)", "ranks 0-2,4 (n0, n1)": at most 4 hosts are named. No host: those that have no name.
[[nodiscard]] std::string who(const value::Idset& ranks, const Examination& examination);

// "9 s", "12 min", "3.5 h".
[[nodiscard]] std::string time_words(double seconds);

// The whole as text: a line a group, then the verdicts ("=> ..."), and notes.
struct TextOptions {
  bool by_rank = false;       // a line for each rank: the groups have one each
  std::size_t columns = 160;  // bytes of one line, beyond which a set of ranks is cut
};
[[nodiscard]] std::string text_of(const Examination& examination, const std::vector<Verdict>& verdicts,
                                  const TextOptions& options);

}  // namespace nacre::doctor
