// SPDX-License-Identifier: Apache-2.0
//
// The program that runs: where its file and what is installed with it are, its title and its environment.
#pragma once

#include <sys/types.h>

#include "base/usual.hpp"

namespace nacre {

// Whether a program of this name is in the PATH of this process; /usr/bin and /bin if it has none.
[[nodiscard]] bool is_in_path(std::string_view program);

// This host's name by gethostname(2); "" if there is none.
[[nodiscard]] std::string host_name();

// The file of the program that runs; "" if it is not known. Without /proc it is the one that execve(2) was given: a
// relative one is looked up in the working directory.
[[nodiscard]] std::string own_program();
// A program of this name beside that one, whether it is there or not; only the name if that one is not known.
[[nodiscard]] std::string beside_own_program(std::string_view name);

// Where what is installed with the program is: by the place of the program itself, so that a tree that was moved,
// or unpacked elsewhere, works as it is.
class InstalledTree {
 public:
  // Of the program that runs. `program_directory`: where the build has meant it to be; if it is there, nothing is
  // looked for.
  explicit InstalledTree(const char* program_directory);

  // The first of the `relative` paths, from the directory of the program, that exists and belongs to the program's
  // owner, or to root; else `absolute`, where the build has meant it to be.
  [[nodiscard]] std::string path(std::initializer_list<const char*> relative, const char* absolute) const;

 private:
  std::string directory_;  // empty: nothing is looked for
  uid_t owner_ = 0;
};

// A shared library by its soname, with `flags` of dlopen(3): the system's; else, in a build for other systems
// (NACRE_PORTABLE), the one that came with the program. Null: it cannot be loaded, dlerror(3) has why.
[[nodiscard]] void* load_library(const char* soname, int flags);

// What ps(1) shows as this process's command line: its arguments are written over.
class ProcessTitle {
 public:
  // Those of main(). From set() on nobody may read them.
  ProcessTitle(int argc, char** argv);

  // The first of these that has room in place of the arguments, else the last, cut off.
  void set(std::initializer_list<std::string> titles);
  // From now on set() does nothing if there is no room for that many bytes.
  void keep_unless(std::size_t room);

 private:
  char* begin_ = nullptr;
  std::size_t size_ = 0;  // bytes, with the NUL at the end
};

// Of the environment, which must not change while other threads may read it. None: it is not set.
[[nodiscard]] std::optional<std::string> own_variable(const char* name);

// Where each user may make files: /tmp, or if it cannot be written, as where a container's root is read-only, the
// first of /var/tmp and /dev/shm that can; /tmp if none.
[[nodiscard]] std::string shared_directory();
// Sets TMPDIR to that if it is not set and /tmp is no place, or is on what is mounted read-only. For the start of a
// program, as own_variable().
void settle_temporary_directory();

// Who has a terminal.

// Whether `fd` is this process's terminal, and another process group has it now: it stops who reads it then.
[[nodiscard]] bool is_in_background(int fd);

// Whether characters beyond ASCII are shown as such.

// The value of LC_ALL or the like names UTF-8.
[[nodiscard]] bool is_utf8_locale(std::string_view locale);

// By the variables LC_ALL, LC_CTYPE and LANG, of which the first that is not empty counts; none of them: no.
using VariableLookup = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] bool is_utf8_locale(const VariableLookup& variable);

// The descriptor is a terminal that shows UTF-8, by this process's environment.
[[nodiscard]] bool is_utf8_terminal(int fd);

}  // namespace nacre
