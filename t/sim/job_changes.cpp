// SPDX-License-Identifier: Apache-2.0
#include "job_changes.hpp"

#include <fmt/format.h>

namespace nacre::sim {
namespace {

constexpr std::uint64_t kEarly = 400'000, kLate = 9'000'000;  // microseconds: when orders come

Order any_order(Random& random, std::uint32_t members, std::size_t tasks) {
  Order out;
  out.what = static_cast<Order::What>(random.in(0, 2));
  out.at = Time(random.in(0, random.one_in(3) ? kEarly : kLate));
  out.count = static_cast<std::uint32_t>(random.one_in(3) ? random.in(1, 5) : random.in(1, 2));
  out.all = random.one_in(4);
  out.grace = Time(random.in(0, 2'500'000));
  bool restarts = out.what == Order::What::restart;
  if (restarts && random.one_in(3)) return out;  // all tasks
  // Shells that may join later, and some that never will, as well.
  std::uint64_t last = restarts ? tasks - 1 : members + 2;
  for (std::uint64_t more = random.in(1, random.one_in(4) ? 8 : 2); more > 0; --more)
    out.ids.insert(static_cast<Id>(random.in(random.one_in(12) || restarts ? 0 : 1, last)));
  return out;
}

}  // namespace

Changes make_changes(Random& random, std::uint32_t members, std::size_t tasks) {
  Changes out;
  if (members > 2 && random.one_in(2)) out.spares = static_cast<std::uint32_t>(random.in(1, (members - 1) / 2));
  out.restarts = !random.one_in(4);
  out.scope = static_cast<job::RestartOption::Scope>(random.one_in(2) ? 0 : random.in(0, 2));
  out.limits.job = random.one_in(3) ? random.in(0, 30) : 3;
  if (random.one_in(4)) out.limits.per_task = random.in(1, 2);
  out.limits.first = static_cast<double>(random.in(0, 3)) / 2;
  out.limits.longest = 4;
  out.replaces = random.one_in(2);
  out.takes_any = out.replaces && random.one_in(2);
  if (out.replaces && random.one_in(3)) {  // all tasks start again with those of a lost shell
    out.restarts = true;
    out.scope = job::RestartOption::Scope::job;
  }
  for (std::uint64_t more = random.one_in(5) ? 0 : random.in(1, random.one_in(3) ? 9 : 3); more > 0; --more)
    out.orders.push_back(any_order(random, members, tasks));
  out.to_spare = out.restarts && !out.takes_any && random.one_in(2);
  return out;
}

Newcomer make_newcomer(std::uint64_t seed, Id id) {
  Random random(seed ^ (0x9e0cULL + id * 0x1f3bULL));
  Newcomer out;
  if (random.one_in(3)) out.fate = static_cast<Newcomer::Fate>(random.in(1, 4));
  out.comes = Time(random.in(1000, random.one_in(4) ? 3'500'000 : 200'000));
  out.crashes = Time(random.in(0, random.one_in(2) ? 30'000 : 5'000'000));
  return out;
}

std::string brief(const Order& order) {
  double at = static_cast<double>(order.at.count()) / 1e6;
  switch (order.what) {
    case Order::What::shrink:
      return fmt::format("shrink by {}, grace {:.3f} s, at {:.3f} s", order.ids.str(),
                         static_cast<double>(order.grace.count()) / 1e6, at);
    case Order::What::grow:
      return fmt::format("grow by {}{}, at {:.3f} s", order.count, order.all ? ", all or none" : "", at);
    case Order::What::restart:
      return fmt::format("restart {}, at {:.3f} s", order.ids.empty() ? "all" : order.ids.str(), at);
  }
  return "";
}

}  // namespace nacre::sim
