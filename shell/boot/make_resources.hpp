// SPDX-License-Identifier: Apache-2.0
//
// Makes R (RFC 20) from the offers of the shells.
#pragma once

#include <vector>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "boot/node_offer.hpp"

namespace nacre::boot {

// Execution target r is the shell of rank r, which offers offers[r]; there is at least one. Shells of one host that
// offer the same cores divide them, in the order of their ranks and as evenly as possible: otherwise the cores
// would be counted and used several times. With fewer cores than shells each shell gets one, and some share one.
// Gpus are divided in the same way, but with fewer gpus than shells the last shells get none. Shells to which their
// manager has given different cores keep them.
Result<Json> make_resources(const std::vector<NodeOffer>& offers);

}  // namespace nacre::boot
