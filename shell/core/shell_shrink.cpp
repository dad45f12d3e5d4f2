// SPDX-License-Identifier: Apache-2.0
#include "core/shell_shrink.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "core/shutdown.hpp"
#include "join/leaving.hpp"
#include "value/wait_status.hpp"

namespace nacre::core {
namespace {

// For the epilogs of a shell that leaves, and its output, after its tasks have been killed.
constexpr event::Seconds kMostAfterKill{10};

}  // namespace

void ShellShrink::serve(group::Group::Callbacks& callbacks, event::Seconds grace) {
  grace_ = grace;
  callbacks.on_shrunk = [this](const value::Shrunk& shrunk) { shells_.left(shrunk); };
  // What has not ended in time, or is held up by a plugin, is given up.
  callbacks.on_leave = [this] {
    end_.left();
    host_.kill_tasks(SIGKILL);
  };
  bulk::Port* port = group_->bulk();
  if (!shells_.has_others() || port == nullptr) return;
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kTopic) announced(bytes);
  });
  bulk::Port::Upward upward;
  upward.on_record = [this](bulk::Id origin, bulk::Numbered number, std::string_view /*bytes*/) {
    group_->bulk()->taken(origin, number);
    shrinks_.ready(origin);
    settle();
  };
  upward.on_room = [this] { send_ready(); };
  port->serve(bulk::up::kReadyToLeave, std::move(upward));
  if (!shells_.leads()) return;
  shells_.when_lost_leaving([this](group::Rank rank) {
    shrinks_.lost(rank);
    settle();
  });
}

// ---- the leader's ------------------------------------------------------------------------------

Result<void> ShellShrink::check(const value::ShrinkOrder& order) const {
  const job::Job& job = host_.job();
  if (!shells_.has_others()) return invalid("shrink: this job has one shell only, which leads it");
  if (!shells_.leads()) return Error{EPERM, "shrink: only the job's leader, shell 0, can do that"};
  if (job_over_ || host_.ending()) return Error{ECANCELED, "shrink: the job is ending"};
  if (!shells_.has_passed(join::kStartBarrier)) return Error{EAGAIN, "shrink: the job is still being started"};
  if (order.shells.empty()) return invalid("shrink: no shell is named");
  if (order.shells.contains(0)) {
    return invalid(
        fmt::format("shrink: shell 0{} leads the job, and cannot leave it", job.resources.nodes[0].on()));
  }
  value::Idset unknown = order.shells - value::Idset::range(0, job.shells() - 1);
  if (!unknown.empty())
    return invalid(fmt::format("shrink: shell {}: the job has shells 0 to {}", unknown.str(), job.shells() - 1));
  value::Idset gone = order.shells & shells_.gone();
  if (!gone.empty()) return invalid(fmt::format("shrink: shell {} is not of the job any more", gone.str()));
  return {};
}

void ShellShrink::order(const value::ShrinkOrder& order, WhenShrunk done) {
  if (Result<void> fits = check(order); !fits) return done(fits.error());
  value::Idset fresh;
  auto number = shrinks_.open(order.shells, fresh);
  open_.emplace(number, Open{std::move(done), std::nullopt});
  if (fresh.empty()) return;
  Result<void> begun = begin(number, fresh, order);
  if (begun) return;
  host_.log().log(Level::warn, "", "shrink: {}", begun.error().message);
  shrinks_.overdue(number);
  settle();
}

Result<void> ShellShrink::begin(elastic::Shrinks::Order number, const value::Idset& fresh,
                                const value::ShrinkOrder& order) {
  event::Seconds grace = order.grace ? event::Seconds(*order.grace) : grace_;
  auto timer = TRY(event::Timer::create(host_.loop(), [this, number] {
    shrinks_.overdue(number);
    settle();
  }));
  timer.start_grace(grace + kKillTime + kMostAfterKill);
  open_.at(number).timer = std::move(timer);
  Json what{{"shells", fresh.str()}, {"signal", order.signum}, {"grace", grace.count()}};
  return group_->announce(kTopic, dump_json(what));
}

void ShellShrink::settle() {
  while (auto shells = shrinks_.take_ready()) take_out(*shells);
  while (auto ended = shrinks_.take_ended()) {
    auto order = open_.extract(ended->first);
    if (order) order.mapped().done(std::move(ended->second));
  }
}

void ShellShrink::take_out(const value::Idset& shells) {
  group_->shrink(shells, [this, shells](const Result<value::Shrunk>& shrunk) {
    // Else none of them is of the job any more.
    value::Shrunk end = shrunk ? *shrunk : value::Shrunk{{}, shells};
    if (!shrunk) shells_.left(end);
    shrinks_.ended(end);
    settle();
  });
}

void ShellShrink::job_over() {
  job_over_ = true;
  for (auto& [number, order] : std::exchange(open_, {}))
    order.done(Error{ECANCELED, "shrink: the job has ended meanwhile"});
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellShrink::announced(std::string_view bytes) {
  Json what = Json::parse(bytes, nullptr, false);
  auto shells = value::Idset::parse(what.is_object() ? what.value("shells", "") : "");
  if (!shells || shells->empty()) {
    return host_.log().log(Level::warn, "", "shrink: an announcement that this version does not understand");
  }
  double grace = what.value("grace", grace_.count());
  shells_.leaving(*shells, grace);
  if (!shells->contains(host_.job().shell_rank)) return;
  leaves_ = true;
  int signum = what.value("signal", SIGTERM);
  host_.log().log(Level::debug, "", "this shell leaves the job: {} to its tasks, then {:g} s",
                  value::signal_name(signum), grace);
  ShellTasks::Ending ending;
  ending.others = true;  // processes that plugins have started for tasks
  ending.signum = signum;
  ending.grace = event::Seconds(grace);
  tasks_.end(ending);
  send_ready();
}

void ShellShrink::put_all() {
  all_put_ = true;
  send_ready();
}

// Without room it is tried again.
void ShellShrink::send_ready() {
  if (!leaves_ || !all_put_ || is_sent_) return;
  Result<bool> sent = group_->bulk()->put(bulk::up::kReadyToLeave, "1");
  is_sent_ = !sent || *sent;
}

}  // namespace nacre::core
