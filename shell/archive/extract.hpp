// SPDX-License-Identifier: Apache-2.0
//
// Extracts an archive to a directory, safely: what the archive says is checked by Reader, where it goes by
// Destination.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "archive/destination.hpp"
#include "archive/entry.hpp"
#include "archive/reader.hpp"
#include "base/result.hpp"

namespace nacre::archive {

struct ExtractOptions {
  std::string directory = ".";         // which has to be there
  std::optional<std::string> pattern;  // only entries whose whole path matches this glob(7); '*' matches '/' too
  Existing existing = Existing::refuse;
  std::optional<std::uint64_t> max_bytes;  // of content in all; holes are none
  std::uint64_t bytes_before = 0;          // that count too
  std::string limited_by = "--max-size";   // what the user gives to allow more
  bool all_or_nothing = false;             // after an error what was extracted is removed, but for an interruption
};

// All of the rest of `reader`. How many entries it extracted, and how much content. Each error starts with the
// archive's name, and stops at once: what was extracted before stays, but no incomplete file does. SIGXFSZ is to be
// ignored, so that a file beyond the limit of RLIMIT_FSIZE is such an error.
Result<Progress> extract(Reader& reader, const ExtractOptions& options, const Watch& watch);

}  // namespace nacre::archive
