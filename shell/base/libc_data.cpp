// SPDX-License-Identifier: Apache-2.0
//
// The programs' own in place of libc's variables. Debian's static libuv, Lua and yaml-cpp address these as data of
// the program that they are linked into: the linker would move each variable of libc's into the program ("copy
// relocation"). What is opened with RTLD_DEEPBIND, as plugins are, would then read the one that libc has left, in
// which `environ` is null. So the linker is asked for --wrap (shell/CMakeLists.txt): whatever is linked in reads
// these here, and libc's stay where they are.
//
// Of C's headers only, as it is also a part of libraries that are no C++ (etc/cmake/portable.cmake).
#include <netinet/in.h>
#include <stdio.h>

// NOLINTBEGIN: the names are the linker's
extern "C" {
extern char** __real_environ;
extern FILE* __real_stdin;
extern FILE* __real_stdout;
extern FILE* __real_stderr;

char** __wrap_environ = nullptr;
FILE* __wrap_stdin = nullptr;
FILE* __wrap_stdout = nullptr;
FILE* __wrap_stderr = nullptr;
extern const in6_addr __wrap_in6addr_any = {};
char __wrap___libc_single_threaded = 0;  // never counted upon: a plugin may start a thread

// Before all other constructors. The programs do not change their environment, nor which streams these are.
__attribute__((constructor(101))) void take_libc_data() {
  __wrap_environ = __real_environ;
  __wrap_stdin = __real_stdin;
  __wrap_stdout = __real_stdout;
  __wrap_stderr = __real_stderr;
}
}
// NOLINTEND
