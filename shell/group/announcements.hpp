// SPDX-License-Identifier: Apache-2.0
//
// What one shell sends to all shells of its job, itself included: a topic and bytes. All receive the same in the
// same order, as it goes through the job's log, in pieces (doc/protocol.md, "What the shells say").
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "group/directory.hpp"
#include "overlay/entry.hpp"

namespace nacre::group {

inline constexpr std::size_t kAnnouncedPiece = std::size_t{256} << 10;  // bytes
inline constexpr std::size_t kMaxAnnounced = std::size_t{64} << 20;     // bytes of one announcement

// The topic of an announcement that is for the group itself (Group::give_up_silent).
inline constexpr std::string_view kGiveUpSilent = "group.give-up-silent";

struct Announcement {
  std::string topic;
  std::string bytes;
};

// The events to request, one right after the other. EMSGSIZE beyond kMaxAnnounced.
Result<std::vector<overlay::Event>> pieces_of(std::string_view topic, std::string_view bytes, Rank origin);

// Joins the pieces of all shells.
class Announcements {
 public:
  // None: more pieces have to come, this is no piece, or the first one of its announcement came before this shell.
  std::optional<Announcement> take(const overlay::Event& piece);

 private:
  std::map<Rank, std::string> begun_;  // by origin
};

}  // namespace nacre::group
