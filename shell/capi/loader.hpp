// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins from shared objects. Each exports `int flux_plugin_init (flux_plugin_t *p)`, as in
// flux_plugin_init(3).
#pragma once

#include <string>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "plugin/host.hpp"

namespace nacre::capi {

// Loads `pattern`, a path or a glob. If it does not start with '/', each directory of the host's searchpath is
// tried: for a glob all matches in all directories, for a name the first file of that name. `conf` (an object, or
// null) is what flux_plugin_get_conf(3) returns. Returns how many were loaded; a glob may match none, but a plain
// name has to exist. An error names the file and what is wrong with it: no ELF file, undefined symbols, no
// flux_plugin_init, flux_plugin_init failed.
//
// A crash inside a plugin ends the shell with one line that names the plugin and the topic, exit code 1.
Result<int> load(plugin::Host& host, const std::string& pattern, const Json& conf);

// The files that load() would load for `pattern`, with this searchpath; ENOENT if a plain name is in no directory.
Result<std::vector<std::string>> find_objects(const std::string& pattern, const std::string& searchpath);

// Files that match a glob, sorted; a pattern without metacharacters matches itself if it exists.
Result<std::vector<std::string>> glob_files(const std::string& pattern);

}  // namespace nacre::capi
