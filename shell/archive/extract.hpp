// SPDX-License-Identifier: Apache-2.0
//
// Extracts an archive to a directory, safely: Reader checks the entries of the archive, and Destination the places
// to which they go.
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
  std::string directory = ".";         // it has to exist
  std::optional<std::string> pattern;  // only entries whose whole path matches this glob(7); '*' matches '/' too
  Existing existing = Existing::refuse;
  std::optional<std::uint64_t> max_bytes;  // of content in all; holes do not count
  std::uint64_t bytes_before = 0;          // bytes that already count
  std::string limited_by = "--max-size";   // the option with which the user can allow more
  // After an error all that was extracted is removed; but not after an interruption
  bool all_or_nothing = false;
};

// Extracts the rest of `reader`. Returns how many entries it extracted, and how much content. Each error starts
// with the archive's name, and ends the work at once: what was extracted before stays, but no incomplete file does.
// SIGXFSZ has to be ignored, so that a file beyond the limit of RLIMIT_FSIZE is such an error.
Result<Progress> extract(Reader& reader, const ExtractOptions& options, const Watch& watch);

}  // namespace nacre::archive
