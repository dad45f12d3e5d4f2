// SPDX-License-Identifier: Apache-2.0
//
// What a node is given when it is made, with every bound of the protocol.
#pragma once

#include "overlay/entry.hpp"

namespace nacre::overlay {

using Time = std::chrono::microseconds;  // since any fixed moment; never goes back
using std::chrono::milliseconds;
using std::chrono::seconds;

struct OverlayOptions {
  std::uint64_t job = 0;
  std::uint64_t term = 1;
  Id self = 0;
  std::uint32_t members = 1;  // of the first view
  std::uint32_t arity = 16;   // at least 2
  bool newcomer = false;      // not of the first view: the leader sends it all that it needs
  std::string address;        // of a newcomer: where others dial it
  Id leader = 0;              // of a newcomer: who leads
  // When the leader is lost the other members choose another one; without this they end. It is the same for all
  // members, from the start or by Node::hand_over().
  bool hands_over = false;
  // Besides: where two halves cannot tell which of them goes on, somebody outside says so, to one of them only
  // (AskArbiter, Node::arbiter_agrees()). It counts as long as the first leader leads.
  bool has_arbiter = false;
  // Of a collective's value: bytes in one message, and the limit.
  std::size_t piece = kPiece;
  std::size_t max_value = kMaxValue;
  // Makes the digest by which the log refers to a value larger than max_logged. Without it all values go in the
  // log.
  std::size_t max_logged = kMaxLogged;
  std::function<Result<Bytes>(std::string_view)> digest;

  // The leader sends a beat this often. A node that has sent its parent nothing for this long sends one up.
  milliseconds beat_interval{1000};
  // After this time without a beat, and a little more for each level of depth, a node dials the leader. So nodes
  // higher up recover first.
  milliseconds beat_bound{4000};
  milliseconds beat_bound_per_level{250};
  // A leader that is only silent counts as lost after so many times silent_bound; at most 3, so that another one is
  // chosen before the fence.
  std::uint32_t leader_silences = 1;
  // After this time without a beat a node ends the tasks, and the shell.
  milliseconds fence{30'000};
  // A child is suspected if it has sent nothing for silent_bound,
  milliseconds silent_bound{5000};
  // if it has not sent HELLO in this time after the view named it (the first view: first_hello_bound),
  milliseconds hello_bound{10'000};
  milliseconds first_hello_bound{60'000};
  // or if its link broke and it is not back in this time.
  milliseconds relink_bound{3000};
  // A dialled parent has to answer HELLO within welcome_bound. If it does not, it is dialled again: at first soon,
  // as it may just be starting, then each time after twice the time, up to redial_interval.
  milliseconds welcome_bound{2000};
  milliseconds redial_first{10};
  milliseconds redial_interval{500};
  // A leaving node has this time to end its tasks, and its leaving children to report; after it the node goes
  // without them.
  milliseconds leave_bound{15'000};
  // A shrink ends after this time, and names the members whose leaving was not confirmed. More than leave_bound.
  milliseconds campaign_bound{20'000};

  // How long a member that wants to lead waits for votes before it asks again.
  milliseconds vote_bound{500};

  // Sets silent_bound, and in proportion all bounds by which nodes find out whether another node lives.
  void wait_for_silent(milliseconds bound);
};

}  // namespace nacre::overlay
