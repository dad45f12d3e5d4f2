// SPDX-License-Identifier: Apache-2.0
//
// Whether a process has set up what it does with a signal.
#pragma once

#include <sys/types.h>

#include "base/file.hpp"

namespace nacre::kit {

// Whether the process handles the signal, or ignores it.
inline bool expects_signal(pid_t pid, int signum) {
  std::string status = read_file(fmt::format("/proc/{}/status", pid)).value_or("");
  std::uint64_t signals = 0;
  for (std::string_view name : {"\nSigIgn:\t", "\nSigCgt:\t"}) {
    if (auto at = status.find(name); at != std::string::npos)
      signals |= std::strtoull(status.c_str() + at + name.size(), nullptr, 16);
  }
  return (signals >> (signum - 1) & 1) != 0;
}

}  // namespace nacre::kit
