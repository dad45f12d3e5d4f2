// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "record/entry.hpp"

namespace nacre::record {

// A job that runs on the host `here`.
inline JobEntry sample_entry(std::uint64_t id) {
  JobEntry out;
  out.version = "1.0";
  out.id = value::JobId(id);
  out.name = "job";
  out.user = 1000;
  out.place = {"here", "01234567", "89abcdef", 4026531836};
  out.pid = 100;
  out.pid_start = 5000;
  out.address = "unix:/tmp/nacre-x/s";
  out.manager = {"slurm", "12", "3"};
  out.shells = 2;
  out.tasks = 4;
  out.command = {"sh", "-c", "true"};
  out.cwd = "/home/user";
  out.started = 1000.25;
  return out;
}

}  // namespace nacre::record
