// SPDX-License-Identifier: Apache-2.0
#include "core/restart_requests.hpp"

#include <algorithm>
#include <utility>

#include "elastic/restart_message.hpp"
#include "event/clock.hpp"

namespace nacre::core {

void RestartRequests::started(Rank rank) { started_[rank] = event::clock_now(); }

void RestartRequests::send(const KeptEnds& kept, const Refuse& refuse) {
  std::map<std::pair<bool, bool>, std::vector<Rank>> ranks;  // by whether they are whole, and ordered
  for (Rank rank : std::exchange(unsent_, {})) {
    auto found = kept.find(rank);
    if (found != kept.end() && found->second.state == KeptEnd::State::asked)
      ranks[{found->second.whole, found->second.ordered}].push_back(rank);
  }
  for (const auto& [how, which] : ranks) send(kept, how.first, how.second, which, refuse);
}

void RestartRequests::send(const KeptEnds& kept, bool whole, bool ordered, const std::vector<Rank>& ranks,
                           const Refuse& refuse) {
  elastic::RestartMessage message;
  message.shell = host_.job().shell_rank;
  message.whole = whole;
  message.ordered = ordered;
  std::vector<Rank> sorted = ranks;
  if (!ordered && (whole || takes_node_)) {
    std::vector<exits::FailureFacts> failures;
    for (Rank rank : ranks) failures.push_back(kept.at(rank).failure);
    exits::Blame blame = exits::first_of(failures);
    std::rotate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(blame.first),
                sorted.begin() + static_cast<std::ptrdiff_t>(blame.first) + 1);
    message.origin = failures[blame.first].origin;
    message.doubt = exits::doubt_of(blame.is_certain, *message.origin, blame.others);
  }
  for (Rank rank : sorted) {
    const KeptEnd& end = kept.at(rank);
    double ran = (event::clock_now() - started_[rank]).count();
    message.ends.push_back({rank, end.task->attempt(), end.record, ran});
  }
  Result<void> sent = host_.announce(elastic::RestartMessage::kAsked, message.asked());
  if (sent) return;
  host_.log().log(Level::error, "", "restart: {}", sent.error().message);
  for (Rank rank : ranks) refuse(rank);
}

void RestartRequests::order_all() {
  elastic::RestartMessage all;
  all.shell = host_.job().shell_rank;
  all.whole = all.ordered = true;
  Result<void> sent = host_.announce(elastic::RestartMessage::kAsked, all.asked());
  if (!sent) host_.log().log(Level::error, "", "restart: {}", sent.error().message);
}

}  // namespace nacre::core
