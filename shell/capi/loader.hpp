// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins from shared objects. Each exports `int flux_plugin_init (flux_plugin_t *p)`, as in
// flux_plugin_init(3).
#pragma once

#include "plugin/host.hpp"

namespace nacre::capi {

// A mapped shared object, which is unmapped at the end.
class Dso {
 public:
  // dlopen(3) with RTLD_* `flags`. An error is one line that starts with the path.
  static Result<Dso> open(const std::string& path, int flags);
  Dso(Dso&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Dso& operator=(Dso&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Dso();

  [[nodiscard]] void* symbol(const char* name) const;  // nullptr: there is none

 private:
  explicit Dso(void* handle) : handle_(handle) {}
  void* handle_ = nullptr;
};

// Facts about an object or a program, found without loading it. In two cases dlopen(3) is of no help: for another
// machine it reports "no such file", and for a file that is cut off it dies of SIGBUS.

// An error, starting with the path, if the file is an ELF object of this word size and byte order that is for
// another machine, or that is shorter than its program headers demand. dlopen has to judge all other files.
Result<void> check_object(const std::string& path);

// The names of the shared libraries that the file itself needs (DT_NEEDED), without those that these need. Empty if
// the file is no dynamic ELF file of this word size and byte order, or cannot be read.
std::vector<std::string> needed_libraries(const std::string& path);

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
