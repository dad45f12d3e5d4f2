// SPDX-License-Identifier: Apache-2.0
//
// mpiexec: its arguments as the words of `nacre run`. They are those of MPI-4.1, 11.5, and those of the launchers
// of MPICH (Hydra), Intel MPI and Open MPI that scripts use; mpiexec(1) has them all. Pure, but for the files that
// arguments name.
#pragma once

#include "base/result.hpp"

namespace nacre::front {

struct MpiexecRun {
  enum class Kind : std::uint8_t { job, help, version };

  Kind kind = Kind::job;
  std::vector<std::string> words = {};        // of `nacre run`, behind its name
  std::vector<std::string> passed_over = {};  // options without a meaning here, as they were given
};

// `words`: those behind the program's name; `variable`: looks up a variable of the environment. An error is one of
// usage.
[[nodiscard]] Result<MpiexecRun> read_mpiexec(
    const std::vector<std::string>& words,
    const std::function<std::optional<std::string>(const char* name)>& variable);

[[nodiscard]] std::string mpiexec_help(std::string_view program);

}  // namespace nacre::front
