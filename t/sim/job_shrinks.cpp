// SPDX-License-Identifier: Apache-2.0
#include "job_shrinks.hpp"

#include <utility>

#include "job/job.hpp"
#include "job_elastic.hpp"
#include "job_leader.hpp"
#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr Time kMostAfterGrace = 12 * kSecond;  // until shells that leave are not waited for

}  // namespace

void JobShrinks::order(const value::ShrinkOrder& what, const Done& done) {
  if (leader_.is_over() || shell_.ending().is_ending() || !shell_.group().has_started()) return done(true);
  auto shells = job::leavers(what, elastic_.replica().job(), elastic_.replica().roster().gone(), shrinks_.left());
  if (!shells) return done(true);
  Idset fresh;
  auto number = shrinks_.open(*shells, fresh);
  shrinking_.emplace(number, done);
  if (fresh.empty()) return;
  double grace = what.grace.value_or(static_cast<double>(kGrace.count()) / 1e6);
  shell_.group().announce("shell.shrink", dump_json({{"shells", fresh.str()}, {"signal", 15}, {"grace", grace}}));
  shell_.process().later(Time(static_cast<std::int64_t>(grace * 1e6)) + kMostAfterGrace, [this, number] {
    shrinks_.overdue(number);
    settle();
  });
}

void JobShrinks::ready(Id shell) {
  shrinks_.ready(shell);
  settle();
}

void JobShrinks::lost(Id shell) {
  if (!shrinks_.is_leaving(shell)) return;
  shrinks_.lost(shell, false);
  settle();
}

void JobShrinks::settle() {
  while (auto shells = shrinks_.take_ready()) {
    leader_.request(Shrink{*shells}, [this, all = *shells](const Entry* entry) {
      const auto* end = entry == nullptr ? nullptr : std::get_if<Campaign>(&entry->body);
      value::Shrunk shrunk{{}, all};  // else none of them is of the job any more
      if (end != nullptr) shrunk = {end->done, end->unconfirmed};
      if (end == nullptr) elastic_.note_left(all - elastic_.replica().roster().left());
      shrinks_.ended(shrunk);
      settle();
    });
  }
  while (auto ended = shrinks_.take_ended()) {
    auto order = shrinking_.extract(ended->first);
    if (order && order.mapped()) order.mapped()(false);
  }
}

void JobShrinks::take_out(const Idset& shells, const Done& done) {
  value::ShrinkOrder what;
  what.shells = shells;
  order(
      what, done ? done : [](bool /*is_error*/) {});
}

void JobShrinks::end_all() {
  for (auto& [number, done] : std::exchange(shrinking_, {})) {
    if (done) done(true);
  }
}

}  // namespace nacre::sim
