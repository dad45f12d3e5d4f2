// SPDX-License-Identifier: Apache-2.0
#include "job_arrivals.hpp"

#include <csignal>
#include <utility>

#include "job_shell.hpp"
#include "job_starts.hpp"

namespace nacre::sim {

void JobArrivals::take(const std::vector<job::Move>& moves) {
  for (const job::Move& each : moves) {
    if (each.to != shell_.process().id()) continue;
    due_.push_back(each);
    coming_.insert(each.ranks);
  }
}

void JobArrivals::take_over() {
  const job::Job& job = replica_.job();
  job::Move move = std::move(due_.front());
  due_.pop_front();
  move.ranks = move.ranks & job.taskmap.ranks_on(shell_.process().id());  // they may have gone on to a spare
  // All may have been told to start again meanwhile.
  for (Id rank : move.ranks.ids()) {
    std::uint32_t attempt = job.attempt_of(rank);
    starts_.expect(rank, attempt, Witness::Why::moved, "");
    JobTask task;
    task.rank = rank;
    task.attempt = attempt;
    task.plan = shell_.process().plan().task(rank, attempt);
    shell_.tasks().add(task);
  }
}

void JobArrivals::started(Id rank) {
  coming_.remove(rank);
  if (!signalled_.contains(rank)) return;
  signalled_.remove(rank);
  signalled_late(rank);
}

void JobArrivals::signalled() { signalled_.insert(coming_); }

void JobArrivals::signalled_late(Id rank) {
  if (coming_.contains(rank)) return signalled_.insert(rank);
  for (JobTask& each : shell_.tasks().list()) {
    if (each.rank != rank || !each.running || !replica_.is_here(rank)) continue;
    each.signalled = true;
    shell_.tasks().kill(each, SIGTERM);
  }
}

}  // namespace nacre::sim
