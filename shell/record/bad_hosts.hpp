// SPDX-License-Identifier: Apache-2.0
//
// The hosts that jobs of this user have found to be bad: a file beside the list of jobs, with a line of JSON for
// each time, the oldest first. Those of more than a week ago do not count any more.
#pragma once

#include "record/places.hpp"

namespace nacre::record {

struct BadHostNote {
  double time = 0;  // seconds since the Epoch
  std::string host;
  std::string check, reason;  // one line each

  [[nodiscard]] std::string text() const;  // of JSON
};

struct BadHosts {
  static constexpr double kRemembered = 7.0 * 24 * 60 * 60;       // seconds
  static constexpr std::size_t kMostText = std::size_t{1} << 18;  // bytes of the file
  static constexpr std::size_t kMostReason = 500;                 // bytes that are kept

  std::vector<BadHostNote> notes;  // the oldest first

  // Parses a file; wrong lines, and notes that are too old or in the future, are left out.
  static BadHosts parse(std::string_view text, double now);
  // Reads the files in all these directories.
  static BadHosts read(const std::vector<EntryDirectory>& directories, double now);
  // The same for places that exist.
  static BadHosts read(const std::vector<std::string>& places, double now);
  // Adds notes to the file in the directory; a file that has grown too long loses what does not count any more.
  static Result<void> add(const EntryDirectory& directory, std::vector<BadHostNote> notes, double now);

  // By host, the last note and how many there are.
  struct Summary {
    BadHostNote last;
    std::size_t times = 0;
  };
  [[nodiscard]] std::map<std::string, Summary> by_host() const;
};

}  // namespace nacre::record
