// SPDX-License-Identifier: Apache-2.0
//
// Owns the headers that are precompiled for the unit tests, see t/unit/CMakeLists.txt.
#include "catch.hpp"
