// SPDX-License-Identifier: Apache-2.0
//
// An option that is a number of bytes: a number, or text with a unit, "10M". k, M, G, T, in either case, are powers
// of 1024, as flux-shell-options(7) has them.
#pragma once

#include <cstdint>

#include "base/json.hpp"
#include "base/result.hpp"

namespace nacre::plugins {

Result<std::uint64_t> size_option(const JsonAt& option);

}  // namespace nacre::plugins
