// SPDX-License-Identifier: Apache-2.0
#include "overlay/reports.hpp"

#include <algorithm>
#include <utility>

#include "overlay/wire.hpp"

namespace nacre::overlay {

void Reports::add_started(const Idset& tasks) {
  Idset fresh = tasks - started_;
  started_.insert(fresh);
  started_unsent_.insert(fresh);
}

void Reports::add_exited(const TaskReport& record) {
  add_started(record.tasks);
  auto found = std::lower_bound(outcomes_.begin(), outcomes_.end(), record.what,
                                [](const auto& a, const Bytes& b) { return a.what < b; });
  if (found == outcomes_.end() || found->what != record.what)
    found = outcomes_.insert(found, {record.what, {}, {}});
  Idset fresh = record.tasks - found->tasks;
  found->tasks.insert(fresh);
  found->unsent.insert(fresh);
}

void Reports::forget_gone(const Idset& ids) {
  gone_ = gone_ - ids;
  gone_taken_ = gone_taken_ - ids;
}

bool Reports::take_unsent(Up& up) {
  up.gone = (gone_ - gone_taken_).take_first(kSplitIds);
  gone_taken_ = gone_taken_ | up.gone;
  up.started = started_unsent_.take_first(kSplitIds);
  bool found = !up.gone.empty() || !up.started.empty();
  std::size_t room = kMaxData;
  for (Outcome& each : outcomes_) {
    while (!each.unsent.empty()) {
      Idset part = each.unsent.take_first(kSplitIds);
      std::size_t size = each.what.size() + part.ranges().size() * 22;  // two numbers as text
      if (found && (size > room || up.exited.size() == kMaxList)) {
        each.unsent.insert(part);
        return true;
      }
      room -= std::min(room, size);
      up.exited.push_back({std::move(part), each.what});
      found = true;
    }
  }
  return found;
}

void Reports::offer_again() {
  gone_taken_ = {};
  started_unsent_ = started_;
  for (Outcome& each : outcomes_) each.unsent = each.tasks;
}

bool Requests::add(const Request& request) {
  if (request.id.number <= answered_.of(request.id.origin)) return false;
  std::deque<Request>& of_origin = pending_[request.id.origin];
  auto place = std::lower_bound(of_origin.begin(), of_origin.end(), request.id.number,
                                [](const Request& each, std::uint64_t number) { return each.id.number < number; });
  if (place != of_origin.end() && place->id.number == request.id.number) return false;
  of_origin.insert(place, request);
  return true;
}

void Requests::answered(RequestId id) {
  if (!answered_.advance(id)) return;
  auto of_origin = pending_.find(id.origin);
  if (of_origin == pending_.end()) return;
  while (!of_origin->second.empty() && of_origin->second.front().id.number <= id.number)
    of_origin->second.pop_front();
  if (of_origin->second.empty()) pending_.erase(of_origin);
}

std::vector<Request> Requests::pending() const {
  std::vector<Request> all;
  for (const auto& [origin, requests] : pending_) all.insert(all.end(), requests.begin(), requests.end());
  return all;
}

}  // namespace nacre::overlay
