// SPDX-License-Identifier: Apache-2.0
//
// Makes an archive of files. The archive appears only when it is complete: if anything fails, at any time, what was
// there before is not changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "archive/entry.hpp"
#include "archive/library.hpp"
#include "archive/store.hpp"
#include "archive/writer.hpp"
#include "base/result.hpp"

namespace nacre::archive {

struct CreateOptions {
  enum class IfExists { refuse, replace, append };

  std::string directory = ".";     // the base of `paths`
  std::vector<std::string> paths;  // in the form of clean_path(); a directory includes all that is in it
  // none: that of the archive to which this appends, else zstd
  std::optional<Compression> compression;
  IfExists if_exists = IfExists::refuse;
};

// Errors name the path: something that is neither file, directory nor symbolic link; a link that check_symlink()
// refuses; a file with a set-user-ID or set-group-ID bit, or one that changes while it is read; a path that is in
// the archive already (directories may be); more than kMaxEntries. Returns what the archive holds, including what
// was in it before.
Result<Progress> create(const Library& library, const ArchiveStore& store, const std::string& name,
                        const CreateOptions& options, const Watch& watch);

}  // namespace nacre::archive
