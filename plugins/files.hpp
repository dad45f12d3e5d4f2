// SPDX-License-Identifier: Apache-2.0
//
// File system objects (Flux RFC 37), an object by path or an array: files, directories and symbolic links, in a
// jobspec or in an archive of flux-archive(1). Nothing outside of the directory to which they are extracted is
// made, through whatever symbolic links there are in it, and no file gets a set-user-ID or set-group-ID bit.
#pragma once

#include "archive/extract.hpp"
#include "broker/kvs.hpp"

namespace nacre::plugins {

// As archive::extract() does; errors name the object. `content` has the content of files with the encoding blobvec;
// null: such a file is an error.
Result<archive::Progress> extract_objects(const JsonAt& objects, const archive::ExtractOptions& options,
                                          const archive::Watch& watch, broker::ContentStore* content);

}  // namespace nacre::plugins
