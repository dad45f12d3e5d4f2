// SPDX-License-Identifier: Apache-2.0
//
// Messages and entries in a few words, for transcripts.
#pragma once

#include "overlay/message.hpp"

namespace nacre::sim {

std::string brief(const overlay::Message& message);
std::string brief(const overlay::Entry& entry);

}  // namespace nacre::sim
