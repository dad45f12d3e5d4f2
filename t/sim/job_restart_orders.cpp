// SPDX-License-Identifier: Apache-2.0
#include "job_restart_orders.hpp"

#include <utility>

#include "job_elastic.hpp"
#include "job_leader.hpp"
#include "job_shell.hpp"

namespace nacre::sim {

void JobRestartOrders::order(std::size_t number, const Idset& ranks) {
  const Idset all = elastic_.replica().job().all_ranks();
  const Idset running = all - shell_.records().all().ranks();
  bool is_served = shell_.group().has_started() && !leader_.is_over();  // as the socket of the plugin control
  bool is_refused = !is_served || !elastic_.replica().changes().restarts || shell_.ending().is_ending() ||
                    running.empty() || !(ranks - all).empty();
  if (is_refused) return shell_.process().witness().answered(number, true);
  restarting_.push_back({number, ranks.empty() ? running : ranks & running});
  Json what = Json::object();
  if (!ranks.empty()) what["ranks"] = restarting_.back().waiting.str();
  if (!restarting_.back().waiting.empty()) shell_.group().announce("shell.restart-order", dump_json(what));
  answer_complete();
}

void JobRestartOrders::done_with(const Idset& ranks) {
  for (Restart& each : restarting_) each.waiting = each.waiting - ranks;
  answer_complete();
}

void JobRestartOrders::answer_complete() {
  std::vector<Restart> done;
  std::erase_if(restarting_, [&](const Restart& each) {
    if (each.waiting.empty()) done.push_back(each);
    return each.waiting.empty();
  });
  for (const Restart& each : done) shell_.process().witness().answered(each.number, false);
}

void JobRestartOrders::end_all() {
  for (const Restart& each : std::exchange(restarting_, {})) shell_.process().witness().answered(each.number, true);
}

}  // namespace nacre::sim
