// SPDX-License-Identifier: Apache-2.0
//
// Runs a program with its output thrown away, and prints one line: wall seconds, CPU seconds (with all that it
// waited for), peak RSS in KiB, and its wait status.
//   measure PROGRAM [ARG...]
//
// A program of its own, since peak RSS counts from before exec: measured from a larger process, it is that one's.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: measure PROGRAM [ARG...]\n");
    return 2;
  }
  double start = now();
  pid_t pid = vfork();
  if (pid == 0) {
    int null = open("/dev/null", O_RDWR);
    if (null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1) execvp(argv[1], argv + 1);
    _exit(127);
  }
  int status;
  struct rusage usage;
  if (pid < 0 || wait4(pid, &status, 0, &usage) < 0) {
    fprintf(stderr, "measure: %s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  double wall = now() - start;
  printf("%.6f %.6f %ld %d\n", wall, seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss, status);
  return 0;
}
