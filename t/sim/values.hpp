// SPDX-License-Identifier: Apache-2.0
//
// Values that go beside the log: what bulk does for them, without bulk.
#pragma once

#include "world.hpp"

namespace nacre::sim {

// In place of SHA-256.
Bytes digest_of(std::string_view bytes);
// It comes to all that live in the end, before or after its entry.
void publish(World& world, Publish& effect);

}  // namespace nacre::sim
