// SPDX-License-Identifier: Apache-2.0
//
// Several programs in one job: reads a file as srun's --multi-prog takes it, and makes the shell's option
// multi-prog of it.
//
//   # ranks  program  arguments
//   0        ./server --port 7000
//   1-3,5    ./worker "a b" %t
//   *        ./idle
//
// RANKS are an idset (RFC 22) without brackets or with them; * stands for all ranks that no other line names. Words
// are split as a shell does, with '', "" and \; a line that ends in \ goes on in the next. The shell replaces %t by
// the task's rank, and %o by the task's number within its line (nacre-shell-options(7)).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::front {

struct Program {
  std::optional<value::Idset> ranks;  // none: those that no other program has
  std::vector<std::string> command;   // not empty
  bool operator==(const Program&) const = default;
};

struct MultiProg {
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  // bytes of a file
  static constexpr std::size_t kMaxPrograms = 65536;

  std::vector<Program> programs;  // not empty

  // Errors name the line. A rank that two lines name, and a second *, are errors.
  static Result<MultiProg> parse(std::string_view text);

  // The least number of tasks that the file needs: one more than its largest rank; none, if it has only *.
  [[nodiscard]] std::optional<std::uint64_t> least_tasks() const;
  // Checks that each of so many tasks has a program, and that no program has a rank beyond them; the error names
  // the ranks.
  [[nodiscard]] Result<void> check(std::uint64_t tasks) const;
  [[nodiscard]] Json option() const;  // [{"ranks": "0-3", "command": [...]}, {"command": [...]}]
};

// A line's words, as a shell would split them, up to a comment. An error: a quote is not closed.
Result<std::vector<std::string>> words_of(std::string_view line);

}  // namespace nacre::front
