// SPDX-License-Identifier: Apache-2.0
//
// Starts many commands at once. Most of a start is the child's exec, for which its vfork waits: from several
// threads the execs run side by side, on several cpus.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "task/spawn.hpp"

namespace nacre::task {

class SpawnPool {
 public:
  using Outcome = tl::expected<Spawned, SpawnError>;

  // Threads that pay here: one for each cpu that this process may use, up to kMaxThreads, as each start still takes
  // locks of the whole process.
  static constexpr unsigned kMaxThreads = 8;
  [[nodiscard]] static unsigned useful_threads();

  // For `threads` starts at a time, of which one is the caller's own. The others are made with the first batch of
  // two or more; where the system has none to give, there are fewer.
  explicit SpawnPool(unsigned threads);
  // Ends the threads. To the kernel a child's parent is a thread, and a child that asked for a signal at its
  // parent's death (PR_SET_PDEATHSIG) gets it then: so the pool must outlive the children.
  ~SpawnPool();
  SpawnPool(const SpawnPool&) = delete;
  SpawnPool& operator=(const SpawnPool&) = delete;

  // As Spawner::spawn without a hook, for each; the outcomes in the order of the commands. Returns when all have
  // executed or failed. As there, nobody may wait for any child meanwhile.
  [[nodiscard]] std::vector<Outcome> spawn(std::span<const Command* const> commands);

 private:
  struct Batch {
    std::span<const Command* const> commands;
    std::vector<Outcome> outcomes;
    std::atomic<std::size_t> next{0};  // the first that no thread has taken
  };

  static void* serve(void* pool);
  static void work(Batch& batch);
  void make_threads();
  void wait_for_batches();

  unsigned wanted_;  // threads besides the caller's
  std::vector<pthread_t> threads_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  Batch* batch_ = nullptr;   // in work, if any
  std::size_t batches_ = 0;  // so far
  std::size_t busy_ = 0;     // threads that have not done with batch_
  bool ending_ = false;
};

}  // namespace nacre::task
