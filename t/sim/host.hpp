// SPDX-License-Identifier: Apache-2.0
//
// A host of the simulated world, and the process on it that runs a node of the overlay.
#pragma once

#include "overlay/node.hpp"

namespace nacre::sim {

using namespace overlay;  // NOLINT: the simulator is about nothing else

inline constexpr Time kMs{1000};
inline constexpr Time kSecond{1'000'000};

enum class Life : std::uint8_t { unborn, up, frozen, crashed, dark };  // dark: no power; the other hosts are not
                                                                       // told

struct Host {
  std::unique_ptr<Node> node;
  Life life = Life::unborn;
  bool in_handler = false;  // frozen in a handler of a plugin: a thread beside it sends busy beats
  bool over = false;        // its node has died or finished
  bool leaves = false;      // the shell leaves by a shrink; its process may end later than its node
  bool ended = false;       // its process has ended, or goes on for others that it has started
  bool lost_link = false;   // one of its links has been reset
  Time armed = Outbox::kNever;
  Time thawed{}, delay{};  // delay: added to all that it sends
  Time busy{};             // sending takes until then
  std::vector<std::pair<LinkName, std::uint32_t>> links;
  std::vector<std::function<void()>> inbox;  // while it is frozen
};

}  // namespace nacre::sim
