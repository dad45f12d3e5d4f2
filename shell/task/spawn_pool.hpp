// SPDX-License-Identifier: Apache-2.0
//
// Starts many commands at once. Most of a start is the child's exec, for which its vfork waits: with several
// threads the execs run side by side, on several cpus.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "event/loop.hpp"
#include "task/spawn.hpp"

namespace nacre::task {

class SpawnPool {
 public:
  using Outcome = tl::expected<Spawned, SpawnError>;

  // How many threads are worth it: one for each cpu that this process may use, up to kMaxThreads, as each start
  // still takes locks of the whole process.
  static constexpr unsigned kMaxThreads = 8;
  // Up to so many commands the caller starts alone: that takes less time than to make a thread and to end it.
  static constexpr std::size_t kAlone = 4;
  [[nodiscard]] static unsigned useful_threads();

  // Makes `threads` starts at a time; one of the threads is the caller. The others are made with the first batch of
  // more than kAlone commands, as many as the system allows.
  explicit SpawnPool(unsigned threads);
  // Ends the threads. To the kernel a child's parent is a thread, so a child that asked for a signal at its
  // parent's death (PR_SET_PDEATHSIG) gets it then: the pool has to outlive the children.
  ~SpawnPool();
  SpawnPool(const SpawnPool&) = delete;
  SpawnPool& operator=(const SpawnPool&) = delete;

  // When a start began, and when it was over: its program had begun, or it had failed.
  struct Times {
    event::Seconds begun{}, over{};
  };

  // Starts each command as Spawner::spawn does without a hook; the outcomes have the order of the commands. Returns
  // when all have executed or failed. Here too no thread may wait for any child meanwhile.
  // `times`: of each, or empty: they are not wanted.
  [[nodiscard]] std::vector<Outcome> spawn(std::span<const Command* const> commands, std::span<Times> times = {});

 private:
  struct Batch {
    std::span<const Command* const> commands;
    std::vector<Outcome> outcomes;
    std::span<Times> times;
    std::vector<int> changed_signals;  // see child.hpp
    std::atomic<std::size_t> next{0};  // the first command that no thread has taken
  };

  static void* serve(void* pool);
  static void work(Batch& batch);
  void make_threads();
  void wait_for_batches();

  unsigned wanted_;  // threads besides the caller's
  std::vector<pthread_t> threads_;
  std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  Batch* batch_ = nullptr;   // the current one; null: none
  std::size_t batches_ = 0;  // so far
  std::size_t busy_ = 0;     // threads that still work on batch_
  bool ending_ = false;
};

}  // namespace nacre::task
