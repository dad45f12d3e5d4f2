// SPDX-License-Identifier: Apache-2.0
//
// What only the leader keeps: shrinks and grows that have not ended, and which requests it has taken.
#pragma once

#include <optional>
#include <vector>

#include "overlay/effect.hpp"
#include "overlay/last_requests.hpp"
#include "overlay/tree.hpp"

namespace nacre::overlay {

inline constexpr std::uint64_t kMaxNewcomers = 4096;                // of one grow
inline constexpr std::uint64_t kMaxRanks = std::uint64_t{1} << 22;  // of one EXEC

struct OpenCampaign {
  RequestId request;
  bool grow = false;
  Seq view = 0;  // 0: a grow whose newcomers have not come
  Seq hold = 0;  // entries after this one may be needed by those who leave
  Idset targets;
  Time deadline{};
};

class Campaigns {
 public:
  // Whether this request is taken for the first time.
  bool take(RequestId id) { return taken_.advance(id); }

  void open(OpenCampaign campaign) { open_.push_back(std::move(campaign)); }
  [[nodiscard]] std::vector<OpenCampaign>& open() { return open_; }
  [[nodiscard]] const std::vector<OpenCampaign>& open() const { return open_; }
  // A grow that waits for this newcomer.
  [[nodiscard]] bool awaits(Id id) const;

  // The end of a campaign that is over, if there is one; it is closed. `complete`: all have applied entries up to it.
  std::optional<std::pair<RequestId, Campaign>> over(Time now, Seq complete, const Idset& gone, const Tree& tree);
  // The last entry that may be dropped.
  [[nodiscard]] Seq stable(Seq complete) const;
  void excuse(Time gap);                   // the bounds are so much later
  [[nodiscard]] Time due(Time now) const;  // the next bound that passes

 private:
  std::vector<OpenCampaign> open_;
  LastRequests taken_;
};

// The map with every share of who is no member handed to those of the map that are, in turn, or else to the leader.
[[nodiscard]] std::vector<Share> remap(const std::vector<Share>& map, const Tree& tree);

}  // namespace nacre::overlay
