// SPDX-License-Identifier: Apache-2.0
#include "job_process.hpp"

#include <utility>

#include <fmt/format.h>

namespace nacre::sim {

JobProcess::JobProcess(World& world, const JobPlan& plan, Id id, Witness& witness, std::function<bool()> step)
    : world_(world), plan_(plan), id_(id), witness_(witness), step_(std::move(step)) {}

void JobProcess::trace(const std::string& line) const {
  if (world_.trace) world_.say(fmt::format("# {} {}", id_, line));
}

void JobProcess::enter(Phase phase) {
  phase_ = phase;
  trace(fmt::format("is in {}", name_of(phase)));
  witness_.entered(id_, phase);
}

void JobProcess::exit(int code) {
  exit_code_ = code;
  trace(fmt::format("exits with {}", code));
  enter(Phase::over);
  if (world_.lives(id_)) world_.crash(id_);  // what is left of its links ends with it
  witness_.ended(id_);
}

void JobProcess::crash() {
  if (is_over()) return;
  crashed_ = true;
  trace("crashes");
  world_.crash(id_);
  enter(Phase::over);
  witness_.ended(id_);
}

// ---- its loop ------------------------------------------------------------------------------

void JobProcess::go_on() {
  while (!is_over() && !busy_ && step_()) {
  }
}

void JobProcess::later(Time delay, const std::function<void()>& what) {
  world_.at_process(id_, world_.now + delay, [this, what] {
    take_news();
    if (is_over()) return;
    what();
    go_on();
  });
}

// How long is up to the seed.
void JobProcess::hold(std::uint64_t most, const std::function<void()>& what) {
  busy_ = true;
  later(Time(world_.random.in(0, most)), [this, what] {
    busy_ = false;
    what();
  });
}

void JobProcess::stepped() {
  if (news_.empty() || takes_news_ || scheduled_ || is_over()) return;
  scheduled_ = true;
  world_.at_process(id_, world_.now, [this] {
    scheduled_ = false;
    take_news();
    go_on();
  });
}

void JobProcess::take_news() {
  if (takes_news_) return;
  takes_news_ = true;
  while (!news_.empty() && !is_over()) {
    auto next = std::move(news_.front());
    news_.pop_front();
    next();
  }
  takes_news_ = false;
}

void JobProcess::serve() {
  serves_ = true;
  for (auto& each : std::exchange(kept_, {})) news_.push_back(std::move(each));
  take_news();
}

}  // namespace nacre::sim
