// SPDX-License-Identifier: Apache-2.0
//
// The processes of a spawn that this shell has, whatever the library by which they have been asked for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "pmi/spawn.hpp"

namespace nacre::plugins {

class PmiGroup;

struct SpawnedProcess {
  std::uint32_t rank = 0;  // of those of the spawn
  pid_t pid = 0;
};

class SpawnedPart {
 public:
  SpawnedPart() = default;
  virtual ~SpawnedPart() = default;
  SpawnedPart(const SpawnedPart&) = delete;
  SpawnedPart& operator=(const SpawnedPart&) = delete;

  // Starts all of them. After an error some may run.
  virtual Result<void> start(const pmi::Spawn& spawn) = 0;
  // Not all of them could be started, here or elsewhere. Ends those that run; that they are over is told once none
  // does, perhaps at once.
  virtual void cancel() = 0;
  virtual void signal(int signum) = 0;  // sends it to all that run

  [[nodiscard]] virtual std::uint32_t running() const = 0;
  [[nodiscard]] virtual std::vector<SpawnedProcess> that_run() const = 0;  // in the order of ranks
  // All have ended, that was told, and no other shell waits for this one in a barrier.
  [[nodiscard]] virtual bool over() const = 0;
  [[nodiscard]] virtual bool is_connected() const = 0;          // one has called init, and not finalize
  [[nodiscard]] virtual const PmiGroup* group() const = 0;      // nullptr: it is none of PMI-1 and PMI-2
  [[nodiscard]] virtual std::uint32_t output_task() const = 0;  // the rank as whose output theirs comes out

  // What follows for the others: as PmiDepartures.
  virtual void shell_leaves() = 0;
  virtual void lost_elsewhere(std::uint32_t rank) = 0;
  virtual void lost_with_shell(std::uint32_t rank) = 0;
};

}  // namespace nacre::plugins
