// SPDX-License-Identifier: Apache-2.0
#include "task/spawn_pool.hpp"

#include <algorithm>
#include <thread>

#include "base/signals_blocked.hpp"
#include "event/clock.hpp"
#include "task/spawn.hpp"

namespace nacre::task {

unsigned SpawnPool::useful_threads() {
  unsigned cpus = std::thread::hardware_concurrency();  // considers sched_getaffinity(2); 0: unknown
  return std::clamp(cpus, 1U, kMaxThreads);
}

SpawnPool::SpawnPool(unsigned threads) : wanted_(threads > 0 ? threads - 1 : 0) {}

SpawnPool::~SpawnPool() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (pthread_t thread : threads_) ::pthread_join(thread, nullptr);
}

std::vector<SpawnPool::Outcome> SpawnPool::spawn(std::span<const Command* const> commands, std::span<Times> times) {
  // No handler of a signal is set while all wait for the batch.
  Batch batch{commands, std::vector<Outcome>(commands.size()), times, changed_signals()};
  if (commands.size() > kAlone) make_threads();
  {
    std::lock_guard lock(mutex_);
    batch_ = &batch;
    ++batches_;
    busy_ = threads_.size();
  }
  changed_.notify_all();
  work(batch);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
  batch_ = nullptr;
  return std::move(batch.outcomes);
}

void SpawnPool::work(Batch& batch) {
  for (std::size_t i; (i = batch.next++) < batch.commands.size();) {
    if (!batch.times.empty()) batch.times[i].begun = event::clock_now();
    batch.outcomes[i] = task::spawn(*batch.commands[i], batch.changed_signals);
    if (!batch.times.empty()) batch.times[i].over = event::clock_now();
  }
}

// std::thread would throw if the system has no more threads.
void SpawnPool::make_threads() {
  SignalsBlocked blocked;  // signals are for the caller's thread
  while (threads_.size() < wanted_) {
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, serve, this) != 0) break;
    threads_.push_back(thread);
  }
}

void* SpawnPool::serve(void* pool) {
  static_cast<SpawnPool*>(pool)->wait_for_batches();
  return nullptr;
}

void SpawnPool::wait_for_batches() {
  std::unique_lock lock(mutex_);
  for (std::size_t seen = 0;;) {
    changed_.wait(lock, [&] { return ending_ || (batch_ != nullptr && batches_ != seen); });
    if (ending_) return;
    seen = batches_;
    Batch* batch = batch_;
    lock.unlock();
    work(*batch);
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

}  // namespace nacre::task
