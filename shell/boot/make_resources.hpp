// SPDX-License-Identifier: Apache-2.0
//
// R (RFC 20) from what the shells offer.
#pragma once

#include <vector>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "boot/node_offer.hpp"

namespace nacre::boot {

// Execution target r is the shell of rank r, which offers offers[r]; there is at least one. Shells of one host that offer the
// same cores share them out, in the order of their ranks and as evenly as it goes: each bounds its tasks to its own, so what
// two have would be counted and used twice. With fewer cores than shells each gets one, and some the same. Their gpus
// likewise, but with fewer gpus than shells the last get none. Shells whose manager has given each its own cores keep them.
Result<Json> make_resources(const std::vector<NodeOffer>& offers);

}  // namespace nacre::boot
