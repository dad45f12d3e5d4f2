// SPDX-License-Identifier: Apache-2.0
//
// The names that the shells of a job give to the links between them.
#pragma once

#include "value/idset.hpp"

namespace nacre::value {

// A link between two shells has a side: `up` for the shell that dialled it and is fed over it, `down` for the shell
// that was dialled and feeds the other. Two shells can have one link of each direction. A new link of the same side
// and peer ends the former one.
enum class Side : std::uint8_t { up, down };
struct LinkName {
  Idset::Id peer = 0;
  Side side = Side::up;
  auto operator<=>(const LinkName&) const = default;
};

}  // namespace nacre::value
