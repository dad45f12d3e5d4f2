// SPDX-License-Identifier: Apache-2.0
//
// Makes an archive of files. It is there when it is complete, and not before: whatever fails, and whenever, what
// was there before is still there.
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

  std::string directory = ".";     // which `paths` are below
  std::vector<std::string> paths;  // as clean_path() takes them; directories with all that is in them
  // none: that of the archive that is appended to, else zstd
  std::optional<Compression> compression;
  IfExists if_exists = IfExists::refuse;
};

// Errors name the path: what is neither file, directory nor symbolic link; a link that check_symlink() refuses; a
// file with a set-user-ID or set-group-ID bit, or one that changes while it is read; a path that is in the archive
// already (directories may be); more than kMaxEntries. Returns what the archive holds, with what it was appended
// to.
Result<Progress> create(const Library& library, const Store& store, const std::string& name,
                        const CreateOptions& options, const Watch& watch);

}  // namespace nacre::archive
