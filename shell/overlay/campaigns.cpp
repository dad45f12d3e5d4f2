// SPDX-License-Identifier: Apache-2.0
#include "overlay/campaigns.hpp"

#include <algorithm>

namespace nacre::overlay {

bool Campaigns::awaits(Id id) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& each) { return each.grow && each.view == 0 && each.targets.contains(id); });
}

void Campaigns::give_up(Id id) {
  for (OpenCampaign& each : open_) {
    if (each.grow && each.targets.contains(id)) each.missing.insert(id);
  }
}

std::optional<std::pair<RequestId, Campaign>> Campaigns::over(Time now, Seq complete, const Idset& gone,
                                                              const Tree& tree) {
  for (auto each = open_.begin(); each != open_.end(); ++each) {
    Campaign end{each->grow, each->view, {}, {}};
    if (each->view == 0 || complete < each->view) continue;
    if (each->grow) {
      for (Id id : each->targets.ids()) {
        if (tree.joined(id) == each->view && tree.has(id)) end.done.insert(id);
      }
    } else {
      end.done = each->targets & gone;
      if (end.done != each->targets && now < each->deadline) continue;
    }
    end.unconfirmed = each->targets - end.done;
    RequestId request = each->request;
    open_.erase(each);
    return std::pair(request, std::move(end));
  }
  return std::nullopt;
}

Seq Campaigns::stable(Seq complete) const {
  for (const OpenCampaign& each : open_) {
    if (!each.grow) complete = std::min(complete, each.hold);
  }
  return complete;
}

void Campaigns::excuse(Time gap) {
  for (OpenCampaign& each : open_) each.deadline += gap;
}

Time Campaigns::due(Time now) const {
  Time due = Outbox::kNever;
  for (const OpenCampaign& each : open_) {
    bool waits = (each.view == 0 || !each.grow) && each.deadline > now;
    if (waits) due = std::min(due, each.deadline);
  }
  return due;
}

Idset not_members(const std::vector<RankShare>& map, const Tree& tree) {
  Idset out;
  for (const RankShare& each : map) {
    if (!tree.has(each.member)) out.insert(each.member);
  }
  if (auto beyond = out.nth(kMaxNamed)) out.remove(*beyond, Idset::kMaxId);
  return out;
}

std::vector<RankShare> remap(const std::vector<RankShare>& map, const Tree& tree) {
  std::vector<RankShare> out;
  Idset homeless;
  for (const RankShare& each : map) {
    if (tree.has(each.member)) {
      out.push_back(each);
    } else {
      homeless = homeless | each.ranks;
    }
  }
  if (homeless.empty()) return out;
  if (out.empty()) out.push_back({tree.at(0), {}});
  std::size_t next = 0;
  for (const auto& range : homeless.ranges()) {
    for (std::uint64_t rank = range.first; rank <= range.last; ++rank) {
      out[next++ % out.size()].ranks.insert(static_cast<Id>(rank));
    }
  }
  return out;
}

}  // namespace nacre::overlay
