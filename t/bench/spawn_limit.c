// SPDX-License-Identifier: Apache-2.0
//
// The limit of several starters: N copies of a program, started side by side by WAYS of a kind, and nothing else.
//   spawn_limit processes|threads WAYS N PROGRAM [ARG...]
// A process starts its share with CLONE_PARENT, so that all are children of this program.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

struct share {
  int count;
  int flags;
  char** command;
};

static int execute(void* command) {
  execve(((char**)command)[0], command, environ);
  _exit(127);
}

static void* start(void* data) {
  const struct share* share = data;
  static _Thread_local char stack[64 << 10] __attribute__((aligned(64)));
  for (int i = 0; i < share->count; ++i) {
    if (clone(execute, stack + sizeof stack, CLONE_VM | CLONE_VFORK | share->flags | SIGCHLD, share->command) < 0) {
      perror("spawn_limit: clone");
      _exit(1);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  int processes = argc > 1 && strcmp(argv[1], "processes") == 0;
  if (argc < 5 || (!processes && strcmp(argv[1], "threads") != 0)) {
    fprintf(stderr, "usage: spawn_limit processes|threads WAYS N PROGRAM [ARG...]\n");
    return 2;
  }
  int ways = atoi(argv[2]), count = atoi(argv[3]);
  pthread_t threads[ways];
  struct share shares[ways];
  for (int i = 0; i < ways; ++i) {
    shares[i] = (struct share){count / ways + (i < count % ways), processes ? CLONE_PARENT : 0, argv + 4};
    if (!processes) {
      pthread_create(&threads[i], NULL, start, &shares[i]);
    } else if (fork() == 0) {
      start(&shares[i]);
      _exit(0);
    }
  }
  int failed = 0, status;
  for (int i = 0; !processes && i < ways; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < count + (processes ? ways : 0); ++i) {
    if (wait(&status) < 0 || status != 0) failed = 1;
  }
  return failed;
}
