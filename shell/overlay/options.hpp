// SPDX-License-Identifier: Apache-2.0
//
// What a node is told at its beginning, with every bound that the protocol has.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "overlay/entry.hpp"

namespace nacre::overlay {

using Time = std::chrono::microseconds;  // since any moment that stays the same; never goes back
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
  std::uint64_t job = 0;
  std::uint64_t term = 1;
  Id self = 0;
  std::uint32_t members = 1;  // of the first view
  std::uint32_t arity = 16;   // at least 2
  bool newcomer = false;      // not of the first view: the leader tells it all
  std::string address;        // of a newcomer: what others dial
  // Of a collective's value: bytes in one message, and at most.
  std::size_t piece = kPiece;
  std::size_t max_value = kMaxValue;
  // What a value above max_logged is known by; none: all values go in the log.
  std::size_t max_logged = kMaxLogged;
  std::function<Result<Bytes>(std::string_view)> digest;

  // The leader beats so often; who has said nothing to its parent for so long beats too.
  milliseconds beat_interval{1000};
  // No beat for so long, and a little more the deeper a node sits: dial the leader. Those above recover first.
  milliseconds beat_bound{4000};
  milliseconds beat_bound_per_level{250};
  // No beat for so long: end the tasks, and the shell.
  milliseconds fence{30'000};
  // A child that says nothing for so long is suspected;
  milliseconds silent_bound{5000};
  // one that the view gives has to say HELLO in this time; at the beginning of the job in this;
  milliseconds hello_bound{10'000};
  milliseconds first_hello_bound{60'000};
  // one whose link broke has to be back in this.
  milliseconds relink_bound{3000};
  // A dialled parent has to answer HELLO in this time, and is dialled again: at first soon, as it may only just start, each time
  // twice as late, up to redial_interval.
  milliseconds welcome_bound{2000};
  milliseconds redial_first{10};
  milliseconds redial_interval{500};
  // Who leaves has ended its tasks, and has heard of its children that leave too, in this time, or goes without.
  milliseconds leave_bound{15'000};
  // A shrink ends after this time, and names whom it could not confirm. More than leave_bound.
  milliseconds campaign_bound{20'000};

  // Sets silent_bound, and all that tell whether another lives in the proportion that they have to it by default.
  void wait_for_silent(milliseconds bound);
};

}  // namespace nacre::overlay
