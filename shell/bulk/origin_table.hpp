// SPDX-License-Identifier: Apache-2.0
//
// What a shell knows of the origins whose records reach it: the link over which the last attempt of each came; on
// the leader also how far each has been delivered and taken.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "bulk/wire.hpp"

namespace nacre::bulk {

class OriginTable {
 public:
  explicit OriginTable(std::size_t most) : most_(most) {}

  struct Route {
    Id peer = 0;
    std::uint64_t link = 0;  // Child::serial
  };
  // False: the record is of an earlier attempt than one that was seen; its origin has sent it again, or will.
  // Otherwise notes for the origin go over this link from now on. ENOSPC: too many origins.
  Result<bool> came(const Head& head, Route from);
  [[nodiscard]] std::optional<Route> route(Id origin) const;

  // ---- at the leader
  enum class Verdict : std::uint8_t { next, again, ahead };  // ahead: those between were lost, and will come again
  Verdict judge(Id origin, Numbered number);                 // next: it counts as delivered
  void delivered(Id origin, Numbered number, Route from, std::size_t bytes, bool is_answer);
  struct Credit {
    Route to;
    std::size_t bytes;
  };
  // The next of the delivered records up to this number: the credit to give its link for it. None: there are no
  // more.
  std::optional<Credit> take(Id origin, Numbered number);
  // Whether the origin is to be notified of what was taken since this was true last: not of answers alone, while
  // they are at most so many bytes.
  bool note_is_due(Id origin, std::size_t most_answers);
  [[nodiscard]] Numbered taken(Id origin) const;

 private:
  struct Waiting {
    Numbered number;
    Credit credit;
    bool is_answer;
  };
  struct Origin {
    std::uint32_t attempt = 0;
    Route route;
    Numbered delivered = 0;
    Numbered taken = 0;
    std::deque<Waiting> waiting;      // delivered, not taken
    std::size_t unnoted_answers = 0;  // bytes
    bool unnoted_others = false;
  };

  std::size_t most_;
  std::unordered_map<Id, Origin> origins_;
};

}  // namespace nacre::bulk
