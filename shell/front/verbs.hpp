// SPDX-License-Identifier: Apache-2.0
//
// The verbs of `nacre` by which people start jobs. Each is a file of its own, and a line here and in nacre.cpp.
#pragma once

#include "cli/verbs.hpp"

namespace nacre::front {

using cli::VerbPtr;

VerbPtr make_launch();
VerbPtr make_run();

}  // namespace nacre::front
