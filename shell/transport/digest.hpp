// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 by libcrypto, which is loaded when the first digest is made.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::transport {

// 32 bytes. An error: libcrypto cannot be loaded.
Result<std::string> sha256(std::string_view bytes);

}  // namespace nacre::transport
