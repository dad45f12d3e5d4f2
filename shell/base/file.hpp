// SPDX-License-Identifier: Apache-2.0
//
// Whole small files at once: jobspecs, R, hostfiles.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace nacre {

inline constexpr std::size_t kMaxInputFile = std::size_t{256} << 20;  // bytes

// All bytes of `path` ("-": standard input). Errors name the path: missing, a directory, larger than `limit`.
Result<std::string> read_file(const std::string& path, std::size_t limit = kMaxInputFile);

}  // namespace nacre
