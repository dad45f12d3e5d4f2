// SPDX-License-Identifier: Apache-2.0
//
// The entry points of the library that nacre-shell is in the simulator.
#include <pthread.h>
#include <uv.h>

#include <cerrno>
#include <cstdio>

int nacre_shell_program(int argc, char** argv);  // main() of shell/main.cpp, by this name

namespace {

struct Thread {
  void* (*run)(void*);
  void* argument;
};
constexpr pthread_t kMostThreads = 64;
Thread all_threads[kMostThreads];
pthread_t threads = 0;

}  // namespace

extern "C" {
extern char** __wrap_environ;  // NOLINT: see base/libc_data.cpp

// There is one thread: a second one runs only when it is joined. Those of a shell only help it (beats while a
// handler does not return, starts side by side) or are joined at once. It is here and not in calls.cpp, as libgcc
// has a function of this name, which the linker would take.
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* /*how*/, void* (*run)(void*),  // NOLINT
                          void* argument) {
  if (threads == kMostThreads) return EAGAIN;
  all_threads[threads] = {run, argument};
  *thread = ++threads;
  return 0;
}

int __wrap_pthread_join(pthread_t thread, void** result) {  // NOLINT
  const Thread& joined = all_threads[thread - 1];
  void* out = joined.run(joined.argument);
  if (result != nullptr) *result = out;
  return 0;
}

__attribute__((visibility("default"))) int nacre_shell_main(int argc, char** argv) {
  int code = nacre_shell_program(argc, argv);
  std::fflush(stdout);
  uv_library_shutdown();  // a destructor of the program calls this
  return code;
}

__attribute__((visibility("default"))) void nacre_shell_set_environment(char** environment) {
  __wrap_environ = environment;
}
}
