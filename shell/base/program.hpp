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

// The file of the program that runs; "" if it is not known. Without /proc it is the path that execve(2) was given;
// a relative path is resolved in the working directory.
[[nodiscard]] std::string own_program();
// The path of a program of this name beside own_program(), whether it exists or not; only the name if that path is
// not known.
[[nodiscard]] std::string beside_own_program(std::string_view name);

// Finds files that are installed with the program, by the place of the program itself, so that a tree that was
// moved, or unpacked elsewhere, works unchanged.
class InstalledTree {
 public:
  // For the running program. `program_directory`: where the build expects it to be; if it is there, nothing is
  // searched.
  explicit InstalledTree(const char* program_directory);

  // The first of the `relative` paths, from the program's directory, that exists and belongs to the program's owner
  // or to root; otherwise `absolute`, where the build expects the file.
  [[nodiscard]] std::string path(std::initializer_list<const char*> relative, const char* absolute) const;

 private:
  std::string directory_;  // empty: nothing is looked for
  uid_t owner_ = 0;
};

// A shared library by its soname, with `flags` of dlopen(3): the system's library or, in a build for other systems
// (NACRE_PORTABLE), the one that came with the program. Null: it cannot be loaded; dlerror(3) has the reason.
[[nodiscard]] void* load_library(const char* soname, int flags);

// What ps(1) shows as this process's command line: the arguments are overwritten.
class ProcessTitle {
 public:
  // The arguments of main(). From set() on nobody may read them.
  ProcessTitle(int argc, char** argv);

  // Sets the first of these that has room in place of the arguments; if none has, the last, cut off.
  void set(std::initializer_list<std::string> titles);
  // From now on set() does nothing if there is not room for `room` bytes.
  void keep_unless(std::size_t room);

 private:
  char* begin_ = nullptr;
  std::size_t size_ = 0;  // bytes, with the NUL at the end
};

// A variable of the environment, which must not change while other threads may read it. None: it is not set.
[[nodiscard]] std::optional<std::string> own_variable(const char* name);

// A directory in which every user may make files: /tmp or, if it cannot be written (a container's root may be
// read-only), the first of /var/tmp and /dev/shm that can; /tmp if none can.
[[nodiscard]] std::string shared_directory();
// Sets TMPDIR to that directory if TMPDIR is not set and /tmp cannot be used or is mounted read-only. For the start
// of a program, as own_variable().
void settle_temporary_directory();

// Which process group has a terminal.

// Whether `fd` is this process's terminal, but another process group has it now: this process would be stopped when
// it reads.
[[nodiscard]] bool is_in_background(int fd);

// Whether characters beyond ASCII can be shown.

// The value of LC_ALL or the like names UTF-8.
[[nodiscard]] bool is_utf8_locale(std::string_view locale);

// By the variables LC_ALL, LC_CTYPE and LANG: the first that is not empty counts. None is set: no.
using VariableLookup = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] bool is_utf8_locale(const VariableLookup& variable);

// Whether the descriptor is a terminal that shows UTF-8, by this process's environment.
[[nodiscard]] bool is_utf8_terminal(int fd);

}  // namespace nacre
