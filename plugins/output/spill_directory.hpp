// SPDX-License-Identifier: Apache-2.0
//
// Where bytes that are not taken yet are kept on disk.
#pragma once

#include <string>

#include "plugin/host.hpp"

namespace nacre::plugins {

// The job's temporary directory, or /tmp if it has none.
inline std::string spill_directory(plugin::Host& host) {
  auto directory = host.environment().get("NACRE_JOB_TMPDIR");
  return directory && !directory->empty() ? std::string(*directory) : "/tmp";
}

}  // namespace nacre::plugins
