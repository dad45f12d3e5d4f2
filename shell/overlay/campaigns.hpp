// SPDX-License-Identifier: Apache-2.0
//
// What only the leader keeps: the shrinks and grows that have not ended, and which requests it has taken.
#pragma once

#include <optional>
#include <vector>

#include "overlay/effect.hpp"
#include "overlay/last_requests.hpp"
#include "overlay/tree.hpp"

namespace nacre::overlay {

inline constexpr std::uint64_t kMaxNewcomers = 4096;  // of one grow

struct OpenCampaign {
  RequestId request;
  bool grow = false;
  Seq view = 0;  // 0: a grow whose newcomers have not come yet
  Seq hold = 0;  // the leaving members may still need the entries after this one
  Idset targets;
  Time deadline{};
  Idset missing = {};  // of a grow: these will not come
};

class Campaigns {
 public:
  // False: this request was taken before.
  bool take(RequestId id) { return taken_.advance(id); }

  void open(OpenCampaign campaign) { open_.push_back(std::move(campaign)); }
  [[nodiscard]] std::vector<OpenCampaign>& open() { return open_; }
  [[nodiscard]] const std::vector<OpenCampaign>& open() const { return open_; }
  // Whether a grow waits for this newcomer.
  [[nodiscard]] bool awaits(Id id) const;
  void give_up(Id id);  // no grow waits for it any more

  // Closes a campaign that is over, if there is one, and returns its end. `complete`: all members have applied the
  // entries up to it.
  std::optional<std::pair<RequestId, Campaign>> over(Time now, Seq complete, const Idset& gone, const Tree& tree);
  // The last entry that may be dropped.
  [[nodiscard]] Seq stable(Seq complete) const;
  void excuse(Time gap);                   // moves all bounds by this
  [[nodiscard]] Time due(Time now) const;  // when the next bound passes

 private:
  std::vector<OpenCampaign> open_;
  LastRequests taken_;
};

// Those of the map that are no members, the first kMaxNamed of them.
[[nodiscard]] Idset not_members(const std::vector<RankShare>& map, const Tree& tree);

// Gives the shares of those that are no members to the members of the map, in turn; to the leader if there are
// none.
[[nodiscard]] std::vector<RankShare> remap(const std::vector<RankShare>& map, const Tree& tree);

}  // namespace nacre::overlay
