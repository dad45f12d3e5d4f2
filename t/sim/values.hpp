// SPDX-License-Identifier: Apache-2.0
//
// Values that go beside the log: carried without bulk, as bulk would.
#pragma once

#include "world.hpp"

namespace nacre::sim {

// In place of SHA-256.
Bytes digest_of(std::string_view bytes);
// The value comes to all living members, before or after its entry.
void publish(World& world, Publish& effect);

}  // namespace nacre::sim
