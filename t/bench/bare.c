// SPDX-License-Identifier: Apache-2.0
//
// The limit: N copies of a program by posix_spawn(3) and wait(2), and nothing else.
//   bare N PROGRAM [ARG...]
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char** environ;

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: bare N PROGRAM [ARG...]\n");
    return 2;
  }
  int count = atoi(argv[1]);
  for (int i = 0; i < count; ++i) {
    pid_t pid;
    int code = posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ);
    if (code != 0) {
      fprintf(stderr, "bare: %s: %s\n", argv[2], strerror(code));
      return 1;
    }
  }
  int failed = 0;
  int status;
  for (int i = 0; i < count; ++i) {
    if (wait(&status) < 0 || status != 0) failed = 1;
  }
  return failed;
}
